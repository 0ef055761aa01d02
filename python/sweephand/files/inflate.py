"""Compressed files, read by ranges of their unpacked content."""

from __future__ import annotations

import io
import sys
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand.base.checks import OptionalModule
from sweephand.errors import DataError
from sweephand.files.local import LocalFile
from sweephand.files.source_file import SourceFile, room_for

Compression = Literal["gzip", "zlib", "zstd"]

_WINDOW_BITS = {"gzip": 31, "zlib": 15}
_READ_BYTES = 1 << 20
_MOST_PLACES = 256  # that are remembered, some 40 KiB each
LEAST_MEMBER = 1 << 17  # bytes of content from one member that is remembered to the next
_FREE_BYTES = 64 << 20  # are unpacked however small the file is


class _Place(NamedTuple):
    """A place where unpacking can resume: nothing before it is needed again."""

    unpacked: int
    packed: int  # the first byte that was not taken in
    state: Any  # of zlib; it is copied before it is used. None: a member begins here


class InflatedFile:
    """The content of a compressed file.

    A range is unpacked from the nearest place before it that is known: where a member of GZIP
    or a frame of Zstandard begins, or within one of GZIP and ZLIB where it was passed before. A
    file is unpacked from its beginning once, then in pieces. Members and frames that follow one
    another are read as one. Safe for several threads.

    Parameters
    ----------
    compression : {"gzip", "zlib", "zstd"}
    max_expansion : int
        A file that unpacks to more than this many times its size is refused, as a zip bomb is;
        but for the first 64 MiB.
    members : sequence of (int, int)
        Where members begin that were found before: in what is unpacked, and in the file.

    Raises
    ------
    DataError
        When it is read: if the compressed bytes are damaged or cut, or unpack to too much.
    """

    def __init__(
        self,
        file: SourceFile,
        compression: Compression,
        max_expansion: int,
        members: Sequence[Sequence[int]] = (),
    ) -> None:
        self._arguments = file, compression, max_expansion, members
        self.file = file
        self._compression = compression
        self._name = compression.upper()
        self.knows_members = len(members) > 0
        self._most_bytes = max(_FREE_BYTES, max_expansion * file.size)
        self._spacing = _READ_BYTES
        begins = [(unpacked, packed) for unpacked, packed in members if unpacked]
        self._places = [_Place(*begin, None) for begin in [(0, 0), *begins]]

    def __reduce__(self) -> tuple[type[InflatedFile], tuple[object, ...]]:
        return type(self), self._arguments

    @property
    def entries(self) -> list[int] | None:
        """The places where unpacking can begin; None: near any place that was passed."""
        if self._compression != "zstd":
            return None
        return [0, *(unpacked for unpacked, _ in self._arguments[3] if unpacked)]

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        """Return `size` bytes from `offset` on; fewer where the content ends."""
        return self.read_padded(offset, size, 0)

    def read_padded(self, offset: int, size: int, padding: int) -> NDArray[np.uint8]:
        """Read a range, with zeros after it."""
        found = room_for(size + padding, self.file.path)
        end = self.read_into(offset, found[:size])
        found[end:] = 0
        return found[: end + padding]

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> int:
        """Fill an array from `offset` on; return how many bytes there are, if fewer."""
        stream = self.open(offset)
        end = 0
        while end < len(out) and (part := stream.take(min(len(out) - end, _READ_BYTES))):
            out[end : end + len(part)] = np.frombuffer(part, np.uint8)
            end += len(part)
        return end

    def open(
        self, offset: int = 0, *, packed: io.BufferedReader | None = None
    ) -> InflatedStream:
        """Return the content from `offset` on.

        `packed` is the file, if all that follows will be wanted; it is closed with what is
        returned.
        """
        places = self._places
        number = bisect_right(places, offset, key=lambda place: place.unpacked) - 1
        stream = InflatedStream(self, places[number], packed)
        stream.seek(offset)
        return stream

    def new_state(self) -> Any:
        """Return the state at the beginning of a member."""
        if self._compression == "zstd":
            return ZstdFrame()
        return zlib.decompressobj(_WINDOW_BITS[self._compression])

    def enter_member(self, unpacked: int, packed: int) -> Any:
        """Return the state at the beginning of another member."""
        if self._compression == "zlib":
            raise self.fail(packed, "has ended, and other bytes follow")
        self._remember(_Place(unpacked, packed, None))
        return self.new_state()

    def fail(self, packed: int, reason: str) -> DataError:
        """Return the error for a place in the compressed bytes."""
        return DataError(f"the {self._name} stream {reason}", self.file.path, packed)

    def check_size(self, unpacked: int, packed: int) -> None:
        """Refuse to unpack more."""
        if unpacked > self._most_bytes:
            raise self.fail(
                packed,
                f"unpacks to more than {self._most_bytes} bytes from the {self.file.size} of "
                "the file; is this a zip bomb? If it is none, unpack it first",
            )

    def remember(self, unpacked: int, packed: int, state: Any) -> None:
        """Keep a place within a member to go on from, unless there is one near."""
        if self._compression == "zstd":  # whose states cannot be copied
            return
        if unpacked >= self._places[-1].unpacked + self._spacing:
            self._remember(_Place(unpacked, packed, state.copy()))

    def _remember(self, place: _Place) -> None:
        places = self._places
        least = places[-1].unpacked + (LEAST_MEMBER if place.state is None else 1)
        if place.unpacked < least:
            return
        # A new list, so that other threads see the old one or the new one.
        self._places = [*places, place]
        held = [one for one in self._places if one.state is not None]
        if len(held) > _MOST_PLACES:
            dropped = {id(one) for one in held[1::2]}
            self._places = [one for one in self._places if id(one) not in dropped]
            self._spacing *= 2


class InflatedStream(io.RawIOBase):
    """The content of a compressed file from a place on.

    Attributes
    ----------
    at : int
        How many bytes of the content lie before what is read next.
    members : list of (int, int)
        Where members began that were passed, some way apart: in the content, and in the file.
    verified : int
        How much of the content lies in members that have ended with the right checksum.
    """

    def __init__(
        self, inflated: InflatedFile, place: _Place, packed: io.BufferedReader | None = None
    ) -> None:
        self._inflated = inflated
        self._file = packed
        self.at = self.verified = place.unpacked
        self.members: list[tuple[int, int]] = [(place.unpacked, place.packed)]
        self._packed = place.packed
        state = place.state
        self._state = inflated.new_state() if state is None else state.copy()
        self._waiting = b""  # compressed bytes that were read and not taken in

    @property
    def taken(self) -> int:
        """The number of compressed bytes that were taken in."""
        return self._packed - len(self._waiting)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the place in the content."""
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the content, unpacking all bytes before it."""
        if whence == io.SEEK_CUR:
            offset += self.at
        if whence == io.SEEK_END or offset < self.at:
            raise io.UnsupportedOperation("the content is read from its beginning to its end")
        while self.at < offset and self.take(min(offset - self.at, _READ_BYTES)):
            pass
        return self.at

    def readinto(self, buffer: object) -> int:
        """Fill a buffer, at most with the bytes that one step unpacks."""
        out = np.frombuffer(buffer, np.uint8)  # type: ignore[call-overload] # a writable buffer
        found = self.take(min(out.size, _READ_BYTES))
        out[: len(found)] = np.frombuffer(found, np.uint8)
        return len(found)

    def close(self) -> None:
        """Wait for no more bytes."""
        if self._file is not None:
            self._file.close()
        super().close()

    def take(self, size: int) -> bytes:
        """Return the next bytes, `size` at most; none at the end."""
        while True:
            if self._state.eof and not self._enter_next_member():
                return b""
            found = self._inflate(size)
            if found:
                self.at += len(found)
                self._inflated.check_size(self.at, self.taken)
                if not self._state.eof:
                    self._inflated.remember(self.at, self.taken, self._state)
                return found
            if not self._state.eof and not self._fill():
                raise self._inflated.fail(
                    self._packed, "ends before its end; it was cut, or is still being written"
                )

    def _inflate(self, size: int) -> bytes:
        begin = self.taken
        try:
            found: bytes = self._state.decompress(self._waiting, size)
        except (zlib.error, ValueError) as error:
            is_sound = isinstance(error, UnreadFrame)
            reason = str(error) if is_sound else f"is damaged: {error}"
            raise self._inflated.fail(begin, reason) from error
        self._waiting = self._state.unused_data or self._state.unconsumed_tail
        return found

    def _fill(self) -> bool:
        """Read more compressed bytes; return True if there were any."""
        file = self._inflated.file
        # From a store whole blocks, the same for readers that come from any position.
        is_here = self._file is not None or isinstance(file, LocalFile)
        inside = 0 if is_here else self._packed % _READ_BYTES
        begin = self._packed - inside
        size = min(_READ_BYTES, file.size - begin)
        if size <= inside:
            return False
        if self._file is None:
            self._waiting += file.read(begin, size)[inside:].tobytes()
        else:
            self._file.seek(begin)
            self._waiting += self._file.read(size)
        self._packed = begin + size
        return True

    def _enter_next_member(self) -> bool:
        self.verified = self.at
        if not self._waiting:
            self._fill()
        if self._waiting:
            if self.at >= self.members[-1][0] + LEAST_MEMBER:
                self.members.append((self.at, self.taken))
            self._state = self._inflated.enter_member(self.at, self.taken)
        return bool(self._waiting)


def find_compression(file: SourceFile) -> Compression | None:
    """Return the compression of a file by its first bytes."""
    return compression_by_head(file.head(4))


def compression_by_head(head: bytes) -> Compression | None:
    """Return the compression of which these are the first bytes."""
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if begins_zstd(head):
        return "zstd"
    is_zlib = len(head) >= 2 and head[0] & 15 == 8 and head[0] < 0x80
    return "zlib" if is_zlib and int.from_bytes(head[:2], "big") % 31 == 0 else None


# Frames of Zstandard (RFC 8878), decompressed block by block in bounded memory.
#
# ::
#
#     frame      magic FD2FB528 | descriptor | window? | size? | block ... | checksum?
#     block      3 bytes: is it the last (1 bit), type (2), size (21) | content
#     skippable  magic 184D2A5? | u32 size | bytes of anybody's

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
