"""The bytes that files of video should have, by the outermost lengths in them.

::

    MP4       | size: 4 bytes | name: 4 bytes | [size: 8 bytes, if the first is 1] | content |
    Matroska  | id: 1 to 4 bytes | size: 1 to 8 bytes | content |

Both are big-endian. A size of 0 in MP4, and one of all ones in Matroska, is "to the end". The
first bits of an id or size of Matroska say how many bytes it has.

https://www.iso.org/standard/83102.html (ISO/IEC 14496-12), https://www.rfc-editor.org/rfc/rfc8794
"""

from __future__ import annotations

from typing import BinaryIO

_EBML = b"\x1a\x45\xdf\xa3"
_SEGMENT = 0x18538067
_LONG_SIZE = 1
_BOX_HEADER = 8  # bytes
_BOXES = (b"ftyp", b"styp", b"moov", b"mdat", b"moof", b"free", b"skip", b"wide", b"sidx")


def check_whole(file: BinaryIO, num_bytes: int) -> None:
    """Refuse a file that is shorter than its outermost parts.

    Parameters
    ----------
    file : binary file
        Its place is moved.
    num_bytes : int
        That it has.

    Raises
    ------
    ValueError
        If it is MP4, MOV, Matroska or WebM and cut short; if its boxes are damaged.
    """
    file.seek(0)
    head = file.read(12)
    if head[:4] == _EBML:
        end = _matroska_end(file, num_bytes)
    elif head[4:8] in _BOXES:
        end = _boxes_end(file, num_bytes)
    else:
        return
    if end > num_bytes:
        raise ValueError(f"the video is cut short: {num_bytes} of {end} bytes are there")


def _boxes_end(file: BinaryIO, num_bytes: int) -> int:
    """Return where the last box ends; zeros may follow."""
    at = 0
    while at + _BOX_HEADER <= num_bytes:
        file.seek(at)
        head = file.read(2 * _BOX_HEADER)
        size, name = int.from_bytes(head[:4]), head[4:8]
        if size == _LONG_SIZE:
            size = int.from_bytes(head[8:16])
        elif size == 0 and (name.isalnum() or not any(name)):
            return num_bytes
        if size < _BOX_HEADER or not name.isalnum():
            raise ValueError(f"the video is damaged: no box of MP4 begins at byte {at}")
        at += size
    return at


def _matroska_end(file: BinaryIO, num_bytes: int) -> int:
    """Return the end of the segment, if it is stored."""
    at = 0
    while at < num_bytes:
        file.seek(at)
        head = file.read(12)
        id_bytes = _width(head[:1])
        size_bytes = _width(head[id_bytes : id_bytes + 1])
        begin = id_bytes + size_bytes
        if not id_bytes or not size_bytes or len(head) < begin:
            return num_bytes
        ones = (1 << 7 * size_bytes) - 1
        size = int.from_bytes(head[id_bytes:begin]) & ones
        if size == ones:  # written as it was recorded
            return num_bytes
        at += begin + size
        if int.from_bytes(head[:id_bytes]) == _SEGMENT:
            return at
    return at


def _width(first: bytes) -> int:
    """Return the bytes of an id or size by its first byte; 0 if it is invalid."""
    return 9 - first[0].bit_length() if first and first[0] else 0
