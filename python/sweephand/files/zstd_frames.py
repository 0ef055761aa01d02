"""Frames of Zstandard (RFC 8878), decompressed block by block in bounded memory.

::

    frame      magic FD2FB528 | descriptor | window? | size? | block ... | checksum?
    block      3 bytes: is it the last (1 bit), type (2), size (21) | content
    skippable  magic 184D2A5? | u32 size | bytes of anybody's
"""

from __future__ import annotations

import sys
from typing import Any

from sweephand.base.checks import OptionalModule

_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte 50 to 5F
_RLE, _RESERVED = 1, 3

if sys.version_info >= (3, 14):
    _library = OptionalModule("compression.zstd", extra="zstd")
else:
    _library = OptionalModule("zstandard", extra="zstd")


def begins_zstd(head: bytes) -> bool:
    """Return True if these are the first bytes of a frame."""
    is_skippable = head[1:4] == _SKIPPABLE and head[0] >> 4 == 5
    return head.startswith(_MAGIC) or is_skippable


class UnreadFrame(ValueError):
    """A sound frame that is not unpacked here."""


class ZstdFrame:
    """Unpacks one frame, by the interface of `zlib.decompressobj`.

    Attributes
    ----------
    unused_data : bytes
        What follows the frame.
    unconsumed_tail : bytes
        Before its end: what was not taken in, which is to be given again, with more after it.
    """

    def __init__(self) -> None:
        self.unused_data = b""
        self.unconsumed_tail = b""
        self._decoder: Any = None  # when the header has come
        self._has_checksum = False
        self._blocks_ended = False
        self._has_ended = False
        self._to_skip = -1  # of a skippable frame
        self._unpacked = memoryview(b"")  # which was not asked for yet

    @property
    def eof(self) -> bool:
        """True if the frame has ended, and all of it was returned."""
        return self._has_ended and not self._unpacked

    def decompress(self, data: bytes, size: int) -> bytes:
        """Return the next content, `size` bytes at most; none if more data are needed."""
        at = 0
        found: list[bytes | memoryview] = []
        left = size
        while True:
            part, self._unpacked = self._unpacked[:left], self._unpacked[left:]
            found.append(part)
            left -= len(part)
            length = None if self._has_ended else self._part_bytes(data[at : at + 18])
            if not left or length is None or length > len(data) - at:
                break
            self._unpacked = memoryview(self._take(data[at : at + length]))
            at += length
        if self._to_skip > 0:
            skipped = min(self._to_skip, len(data) - at)
            self._to_skip -= skipped
            at += skipped
            self._has_ended = self._to_skip == 0
        self.unconsumed_tail = b"" if self.eof else data[at:]
        self.unused_data = data[at:] if self.eof else b""
        return b"".join(found)

    def _part_bytes(self, head: bytes) -> int | None:
        """Return the bytes of the next part; None if too few are here to know it."""
        if self._to_skip >= 0:
            return None
        if self._decoder is None:
            return _header_bytes(head)
        if self._blocks_ended:
            return 4
        if len(head) < 3:
            return None
        block = int.from_bytes(head[:3], "little")
        if block >> 1 & 3 == _RESERVED:
            raise ValueError("a block of no known type")
        return 3 + (1 if block >> 1 & 3 == _RLE else block >> 3)

    def _take(self, part: bytes) -> bytes:
        """Give a whole part to the library."""
        if self._decoder is None:
            if not part.startswith(_MAGIC):
                self._to_skip = int.from_bytes(part[4:8], "little")
                self._has_ended = self._to_skip == 0
                self._decoder = ()
                return b""
            self._has_checksum = bool(part[4] & 4)
            self._decoder = _new_decoder()
        elif self._blocks_ended:
            self._has_ended = True
        else:
            self._blocks_ended = bool(part[0] & 1)
            self._has_ended = self._blocks_ended and not self._has_checksum
        try:
            unpacked: bytes = self._decoder.decompress(part)
        except _library.ZstdError as error:
            if "too much memory" in str(error):
                raise UnreadFrame(
                    "has a window of more than 128 MiB, as 'zstd --long=31' writes it: pack it "
                    "without --long"
                ) from None
            raise ValueError(f"{error}") from None
        return unpacked


def _header_bytes(head: bytes) -> int | None:
    if len(head) < 5:
        return None
    if not begins_zstd(head):
        raise ValueError("no frame begins here")
    if not head.startswith(_MAGIC):
        return 8
    descriptor = head[4]
    if descriptor & 3:
        raise UnreadFrame("needs a dictionary, which a file cannot tell")
    is_single = descriptor >> 5 & 1
    size_bytes = (is_single, 2, 4, 8)[descriptor >> 6]
    return 5 + (1 - is_single) + size_bytes


def _new_decoder() -> Any:
    if sys.version_info >= (3, 14):
        return _library.ZstdDecompressor()
    return _library.ZstdDecompressor().decompressobj()
