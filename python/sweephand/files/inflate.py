"""GZIP and ZLIB files read by ranges of what they unpack to."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand.errors import DataError
from sweephand.files.source_file import SourceFile

Compression = Literal["gzip", "zlib"]

_WINDOW_BITS = {"gzip": 31, "zlib": 15}
_READ_BYTES = 1 << 20
_MOST_PLACES = 256  # that are remembered, some 40 KiB each
_FREE_BYTES = 64 << 20  # are unpacked however small the file is


class _Place(NamedTuple):
    """Where unpacking can go on: at once, as nothing before it is needed again."""

    unpacked: int
    packed: int  # the first byte that was not taken in
    state: Any  # of zlib; it is copied before it is used


class InflatedFile:
    """The content of a compressed file.

    A range is unpacked from the nearest place before it that was passed before; a file is
    unpacked from its beginning once, then in pieces. Members of GZIP that follow one another
    are read as one. Safe for several threads.

    Parameters
    ----------
    file : SourceFile
    compression : {"gzip", "zlib"}
    max_expansion : int
        A file that unpacks to more than this many times its size is refused, as a zip bomb is;
        but for the first 64 MiB.

    Raises
    ------
    DataError
        When it is read: if the compressed bytes are damaged or cut, or unpack to too much.
    """

    def __init__(self, file: SourceFile, compression: Compression, max_expansion: int) -> None:
        self._arguments = file, compression, max_expansion
        self.file = file
        self._bits = _WINDOW_BITS[compression]
        self._name = compression.upper()
        self._most_bytes = max(_FREE_BYTES, max_expansion * file.size)
        self._spacing = _READ_BYTES
        self._places = [_Place(0, 0, zlib.decompressobj(self._bits))]

    def __reduce__(self) -> tuple[type[InflatedFile], tuple[object, ...]]:
        return type(self), self._arguments

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        """Return `size` bytes from `offset` on; fewer where the content ends."""
        stream = self.open(offset)
        parts = []
        left = size
        while left and (part := stream.read(min(left, _READ_BYTES))):
            parts.append(part)
            left -= len(part)
        return np.frombuffer(b"".join(parts), np.uint8)

    def open(self, offset: int = 0) -> InflatedStream:
        """Return the content from `offset` on."""
        places = self._places
        number = bisect_right(places, offset, key=lambda place: place.unpacked) - 1
        stream = InflatedStream(self, places[number])
        while stream.at < offset and stream.read(min(offset - stream.at, _READ_BYTES)):
            pass
        return stream

    def new_state(self, packed: int) -> Any:
        """Return the state at the beginning of another member."""
        if self._name == "ZLIB":
            raise self.fail(packed, "has ended, and other bytes follow")
        return zlib.decompressobj(self._bits)

    def fail(self, packed: int, reason: str) -> DataError:
        """Return the error for a place in the compressed bytes."""
        return DataError(f"the {self._name} stream {reason}", self.file.path, packed)

    def check_size(self, unpacked: int, packed: int) -> None:
        """Refuse to unpack more."""
        if unpacked > self._most_bytes:
            raise self.fail(
                packed,
                f"unpacks to more than {self._most_bytes} bytes from the {self.file.size} of "
                "the file; is this a zip bomb? max_expansion allows more",
            )

    def remember(self, unpacked: int, packed: int, state: Any) -> None:
        """Keep a place to go on from, unless there is one near."""
        places = self._places
        if unpacked < places[-1].unpacked + self._spacing:
            return
        # A new list, so that other threads see the old one or the new one.
        self._places = [*places, _Place(unpacked, packed, state.copy())]
        if len(places) == _MOST_PLACES:
            self._places = self._places[::2]
            self._spacing *= 2


class InflatedStream:
    """The content of a compressed file from a place on.

    Attributes
    ----------
    at : int
        How many bytes of the content lie before what is read next.
    """

    def __init__(self, inflated: InflatedFile, place: _Place) -> None:
        self._inflated = inflated
        self.at = place.unpacked
        self._packed = place.packed
        self._state = place.state.copy()
        self._waiting = b""  # compressed bytes that were read and not taken in

    def tell(self) -> int:
        """Return how many compressed bytes were taken in."""
        return self._packed - len(self._waiting)

    def read(self, size: int) -> bytes:
        """Return the next bytes, `size` at most; none at the end."""
        while True:
            if self._state.eof and not self._enter_next_member():
                return b""
            if not self._waiting:
                self._fill()
            found = self._inflate(size)
            if found:
                self.at += len(found)
                self._inflated.check_size(self.at, self.tell())
                if not self._state.eof:
                    self._inflated.remember(self.at, self.tell(), self._state)
                return found

    def _inflate(self, size: int) -> bytes:
        waiting, at_end = self._waiting, self._packed == self._inflated.file.size
        begin = self.tell()
        try:
            found: bytes = self._state.decompress(waiting, size)
        except zlib.error as error:
            raise self._inflated.fail(begin, f"is damaged: {error}") from error
        self._waiting = self._state.unused_data or self._state.unconsumed_tail
        if at_end and not found and not self._state.eof and not self._waiting:
            raise self._inflated.fail(
                self._packed, "ends before its end; it was cut, or is still being written"
            )
        return found

    def _fill(self) -> None:
        file = self._inflated.file
        size = min(_READ_BYTES, file.size - self._packed)
        if size:
            self._waiting = file.read(self._packed, size).tobytes()
            self._packed += size

    def _enter_next_member(self) -> bool:
        if not self._waiting:
            self._fill()
        if self._waiting:
            self._state = self._inflated.new_state(self.tell())
        return bool(self._waiting)


def find_compression(file: SourceFile) -> Compression | None:
    """Tell by its first bytes whether a file is compressed."""
    head = file.read(0, min(2, file.size)).tobytes()
    if head == b"\x1f\x8b":
        return "gzip"
    is_zlib = len(head) == 2 and head[0] & 15 == 8 and head[0] < 0x80
    return "zlib" if is_zlib and int.from_bytes(head, "big") % 31 == 0 else None
