"""Containers of videos, by their bytes: FFmpeg's name, and the bytes that they should have.

::

    MP4       | size: 4 bytes | name: 4 bytes | [size: 8 bytes, if the first is 1] | content |
    Matroska  | id: 1 to 4 bytes | size: 1 to 8 bytes | content |

Both are big-endian. A size of 0 in MP4, and one of all ones in Matroska, is "to the end". The
first bits of an id or size of Matroska say how many bytes it has.

FFmpeg itself would go by names too, and read scripts that name other files and addresses.

https://www.iso.org/standard/83102.html (ISO/IEC 14496-12), https://www.rfc-editor.org/rfc/rfc8794
"""

from __future__ import annotations

import re
from typing import BinaryIO

_EBML = b"\x1a\x45\xdf\xa3"
_SEGMENT = 0x18538067
_LONG_SIZE = 1
_BOX_HEADER = 8  # bytes
_BOXES = (b"ftyp", b"styp", b"moov", b"mdat", b"moof", b"free", b"skip", b"wide", b"sidx")
_PACKET = 188  # bytes of MPEG's transport stream, which has this between them
_SYNC = b"G"
_OTHERS = {
    b"\0\0\1\xba": "mpeg",
    b"FLV\1": "flv",
    b"0&\xb2u\x8ef\xcf\x11": "asf",
    b"OggS": "ogg",
    b"GIF8": "gif",
}
# Boxes that state a number of samples, and how far behind their names.
_COUNTED = re.compile(rb"stsz.{8}(.{4})|trun.{4}(.{4})|(cmov)", re.DOTALL)
_COUNTED_BYTES = 16
_PIECE = 1 << 20  # bytes


def container_of(file: BinaryIO, num_bytes: int) -> str:
    """Return the name of FFmpeg's demuxer for a file, all of which is there."""
    file.seek(0)
    head = file.read(2 * _PACKET)
    end = num_bytes
    if head[:4] == _EBML:
        name, end = "matroska", _matroska_end(file, num_bytes)
    elif head[4:8] in _BOXES:
        name, end = "mov", _boxes_end(file, num_bytes)
    elif head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        name = "avi"
    elif head[:1] == _SYNC and head[_PACKET : _PACKET + 1] == _SYNC:
        name = "mpegts"
    else:
        found = (one for first, one in _OTHERS.items() if head.startswith(first))
        name = next(found, "")
    if not name:
        raise ValueError(
            f"{num_bytes} bytes are no video that can be decoded: they are none of MP4, "
            "Matroska, AVI, MPEG, FLV, ASF, Ogg and GIF"
        )
    if end > num_bytes:
        raise ValueError(f"the video is cut short: {num_bytes} of {end} bytes are there")
    return name


def _boxes_end(file: BinaryIO, num_bytes: int) -> int:
    """Return where the last box ends; zeros may follow."""
    at = num_samples = 0
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
        if name != b"mdat":
            num_samples += _stated_samples(file, at, min(at + size, num_bytes))
            if num_samples > num_bytes:  # of which FFmpeg would make a list
                raise ValueError(
                    f"the video is damaged: {num_samples} samples in {num_bytes} bytes"
                )
        at += size
    return at


def _stated_samples(file: BinaryIO, begin: int, end: int) -> int:
    """Return the number of samples that the boxes in a range of a file state."""
    total = 0
    for at in range(begin, end, _PIECE):
        file.seek(at)
        piece = file.read(min(_PIECE + _COUNTED_BYTES - 1, end - at))
        for sizes, run, compressed in _COUNTED.findall(piece):
            if compressed:
                raise ValueError("the header of the video is compressed, which is not read")
            total += int.from_bytes(sizes or run)
    return total


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
