"""Compressed files, read by ranges of their unpacked content."""

from __future__ import annotations

import io
import sys
import zlib
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand.base.checks import OptionalModule
from sweephand.errors import DataError, StaleError
from sweephand.files.local import LocalFile
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import FIRST_BYTES, SourceFile, room_for

Compression = Literal["gzip", "zlib", "zstd"]

Members = Sequence[Sequence[int]]
"""Where members of GZIP or frames of Zstandard begin: in the content, in the file."""

PACKINGS: tuple[Compression, ...] = ("gzip", "zstd")
"""The compressions of text."""

LEAST_MEMBER = 1 << 17
"""Bytes of content from one member that is remembered to the next."""

_WINDOW_BITS = {"gzip": 31, "zlib": 15}
_READ_BYTES = 1 << 20
_MOST_PLACES = 256  # that are remembered, some 40 KiB each
_MAX_EXPANSION = 200  # the times its size that a file may unpack to
_FREE_BYTES = 64 << 20  # are unpacked however small the file is


class FileContents:
    """Reader of files by their unpacked content; what is known of each file is kept."""

    def __init__(self) -> None:
        self._inflated: dict[str, InflatedFile] = {}

    def __reduce__(self) -> tuple[type[FileContents], tuple[()]]:
        return type(self), ()

    def inflated(
        self, file: SourceFile, compression: Compression, members: Members = ()
    ) -> InflatedFile:
        """Return the content of a compressed file."""
        known = self._inflated.get(file.path)
        # Until the index is there members are not known.
        if known is None or known.file != file or (members and not known.members):
            known = self._inflated[file.path] = InflatedFile(file, compression, members)
        return known

    def open(self, file: SourceFile, compression: Compression | None) -> io.BufferedReader:
        """Open a file that is read from the beginning of its content to the end."""
        return self._unpack(file, compression, open_to_scan(file))

    def open_text(self, file: SourceFile) -> tuple[io.BufferedReader, Compression | None]:
        """Open a file as text, and return its compression, by one request for both."""
        packed = open_to_scan(file)
        found = compression_by_head(packed.peek(4)[:4])
        compression = found if found in PACKINGS else None
        return self._unpack(file, compression, packed), compression

    def _unpack(
        self, file: SourceFile, compression: Compression | None, packed: io.BufferedReader
    ) -> io.BufferedReader:
        if compression is None:
            return packed
        raw = self.inflated(file, compression).open(packed=packed)
        return io.BufferedReader(raw, _READ_BYTES)

    def measure(
        self, file: SourceFile, compression: Compression
    ) -> tuple[int, list[list[int]]]:
        """Return how long the content of a file is, and where its members begin."""
        with self.inflated(file, compression).open(packed=open_to_scan(file)) as stream:
            while stream.take(_READ_BYTES):
                pass
            return stream.at, [list(one) for one in stream.members]

    def as_file(
        self, file: SourceFile, compression: Compression, size: int, members: Members
    ) -> ContentFile:
        """Return the content of a compressed file, whose size is known, as a file."""
        content = self.inflated(file, compression, members)
        return ContentFile(file.path, file.name, size, file.tag, content)

    def head(self, file: SourceFile, compression: Compression | None, size: int) -> bytes:
        """Return the first bytes of the content; damage after them is ignored."""
        if compression is None:
            return file.head(size)
        stream = self.inflated(file, compression).open(first=file.head(FIRST_BYTES))
        found = b""
        try:
            while len(found) < size and (part := stream.take(size - len(found))):
                found += part
        except StaleError:
            raise
        except DataError:
            if not found:
                raise
        return found


def compression_of(
    file: SourceFile, among: Collection[Compression] = PACKINGS
) -> Compression | None:
    """Return how a file is compressed, by default if it is text."""
    found = compression_by_head(file.head(4))
    return found if found in among else None


def taken_from(stream: io.BufferedReader) -> int:
    """Return how many bytes of a file, as it is stored, a stream of `FileContents` has read."""
    raw = stream.raw
    return raw.taken if isinstance(raw, InflatedStream) else stream.tell()


def head_of_content(file: SourceFile, size: int, among: Collection[Compression]) -> bytes:
    """Return the first bytes of a file's content, unpacked if compressed as `among`."""
    return FileContents().head(file, compression_of(file, among), size)


def compression_by_head(head: bytes) -> Compression | None:
    """Return the compression of which these are the first bytes."""
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    is_skippable = head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5
    if head.startswith(b"\x28\xb5\x2f\xfd") or is_skippable:
        return "zstd"
    is_zlib = len(head) >= 2 and head[0] & 15 == 8 and head[0] < 0x80
    return "zlib" if is_zlib and int.from_bytes(head[:2], "big") % 31 == 0 else None


@dataclass(frozen=True)
class ContentFile(SourceFile):
    """Content of a compressed file, of known size; it is as old as that file."""

    content: InflatedFile = field(compare=False)

    @property
    def is_here(self) -> bool:
        """True if its bytes are local."""
        return self.content.file.is_here

    @property
    def spec(self) -> str:
        """Path or URL that finds the file again."""
        return self.content.file.spec

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill an array with the bytes from `offset` on; see `SourceFile`."""
        end = self.content.read_into(offset, out)
        if end < len(out):
            raise DataError(
                f"it unpacks to {offset + end} bytes, not to {self.size}", self.path
            )

    def check_unchanged(self) -> None:
        """Raise StaleError if the file is not the listed file."""
        self.content.file.check_unchanged()


class _Place(NamedTuple):
    """A place where unpacking can resume: nothing before it is needed again."""

    unpacked: int
    packed: int  # the first byte that was not taken in
    state: Any  # of zlib; it is copied before it is used. None: a member begins here


class InflatedFile:
    """The content of a compressed file. Safe for several threads.

    A range is unpacked from the nearest place before it that is known: where a member or frame
    begins, or within one of GZIP and ZLIB where it was passed before. Members and frames that
    follow one another are read as one.
    """

    def __init__(
        self,
        file: SourceFile,
        compression: Compression,
        members: Members = (),
        most_bytes: int = 0,  # that the content may have even if the file is small
    ) -> None:
        self._arguments = file, compression, members, most_bytes
        self.file, self.members = file, members
        self._compression = compression
        self._most_bytes = max(_FREE_BYTES, _MAX_EXPANSION * file.size, most_bytes)
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
        return [0, *(unpacked for unpacked, _ in self.members if unpacked)]

    def read(self, offset: int, size: int, padding: int = 0) -> NDArray[np.uint8]:
        """Return a range, fewer bytes where the content ends, and zeros after it."""
        found = room_for(size + padding, self.file.path)
        end = self.read_into(offset, found[:size])
        found[end:] = 0
        return found[: end + padding]

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> int:
        """Fill an array from `offset` on; return how many bytes there are, if fewer."""
        stream, end = self.open(offset), 0
        while end < len(out) and (count := stream.readinto(out[end:])):
            end += count
        return end

    def open(
        self, offset: int = 0, *, packed: io.BufferedIOBase | None = None, first: bytes = b""
    ) -> InflatedStream:
        """Return the content from `offset` on.

        `packed` is the file, if all that follows will be wanted; it is closed with what is
        returned. `first` are its first bytes, if they are known, of the content from 0 on.
        """
        places = self._places
        number = bisect_right(places, offset, key=lambda place: place.unpacked) - 1
        stream = InflatedStream(self, places[number], packed, first)
        stream.seek(offset)
        return stream

    def new_state(self, packed: int) -> Any:
        """Return the state at the beginning of a member, which is there in the file."""
        if self._compression == "zstd":
            return ZstdFrame()
        if self._compression == "zlib" and packed:
            raise self.fail(packed, "has ended, and other bytes follow")
        return zlib.decompressobj(_WINDOW_BITS[self._compression])

    def fail(self, packed: int, reason: str) -> DataError:
        """Return the error for a place in the compressed bytes."""
        stream = self._compression.upper()
        return DataError(f"the {stream} stream {reason}", self.file.path, packed)

    def passed(self, unpacked: int, packed: int, state: Any) -> None:
        """Keep a place to go on from, unless there is one near; see `_Place`.

        Refuse to unpack more than is allowed.
        """
        if unpacked > self._most_bytes:
            raise self.fail(
                packed,
                f"unpacks to more than {self._most_bytes} bytes from the {self.file.size} of "
                "the file; is this a zip bomb? If it is none, unpack it first",
            )
        places = self._places
        spacing = LEAST_MEMBER if state is None else self._spacing
        if unpacked < places[-1].unpacked + spacing:
            return
        if state is not None:
            if self._compression == "zstd" or state.eof:  # zstd's cannot be copied
                return
            state = state.copy()
        # A new list, so that other threads see the old one or the new one.
        self._places = [*places, _Place(unpacked, packed, state)]
        held = [one for one in self._places if one.state is not None]
        if len(held) > _MOST_PLACES:
            dropped = {id(one) for one in held[1::2]}
            self._places = [one for one in self._places if id(one) not in dropped]
            self._spacing *= 2


class InflatedStream(io.RawIOBase):
    """The content of a compressed file from a place on."""

    def __init__(
        self,
        inflated: InflatedFile,
        place: _Place,
        packed: io.BufferedIOBase | None,
        first: bytes,
    ) -> None:
        self._inflated = inflated
        self._file = packed
        self.at = place.unpacked  # in the content, of what is read next
        self.verified = place.unpacked  # the end of members that had the right checksum
        # Where members began that were passed, some way apart: in the content, in the file.
        self.members: list[tuple[int, int]] = [(place.unpacked, place.packed)]
        self._packed = place.packed + len(first)
        state = place.state
        self._state = inflated.new_state(place.packed) if state is None else state.copy()
        self._waiting = first  # compressed bytes that were read and not taken in

    @property
    def taken(self) -> int:
        """The number of compressed bytes that were taken in."""
        return self._packed - len(self._waiting)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the content, unpacking all bytes before it."""
        if whence != io.SEEK_SET or offset < self.at:
            raise io.UnsupportedOperation("the content is read from its beginning to its end")
        while self.at < offset and self.take(min(offset - self.at, _READ_BYTES)):
            pass
        return self.at

    def readinto(self, buffer: object) -> int:
        """Fill a buffer with the bytes that one step unpacks."""
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
            begin = self.taken
            try:
                found: bytes = self._state.decompress(self._waiting, size)
            except (zlib.error, ValueError) as error:
                raise self._inflated.fail(begin, f"is damaged: {error}") from error
            self._waiting = self._state.unused_data or self._state.unconsumed_tail
            if found:
                self.at += len(found)
                self._inflated.passed(self.at, self.taken, self._state)
                return found
            if not self._state.eof and not self._fill():
                raise self._inflated.fail(
                    self._packed, "ends before its end; it was cut, or is still being written"
                )

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
            self._inflated.passed(self.at, self.taken, None)
            self._state = self._inflated.new_state(self.taken)
        return bool(self._waiting)


if sys.version_info >= (3, 14):
    _library = OptionalModule("compression.zstd", extra="zstd")
else:
    _library = OptionalModule("zstandard", extra="zstd")

_ZSTD_BYTES = 1 << 12  # at a time, as four of them may unpack to 128 KiB


class ZstdFrame:
    """Unpacks one frame of Zstandard (RFC 8878), by the interface of `zlib.decompressobj`."""

    def __init__(self) -> None:
        self.unused_data = b""  # what follows the frame
        self.unconsumed_tail = b""  # before its end: is to be given again, with more after it
        made = _library.ZstdDecompressor()
        self._decoder: Any = made if sys.version_info >= (3, 14) else made.decompressobj()
        self._unpacked = memoryview(b"")  # which was not asked for yet

    @property
    def eof(self) -> bool:
        """True if the frame has ended, and all of it was returned."""
        return self._decoder.eof and not self._unpacked

    def decompress(self, data: bytes, size: int) -> bytes:
        """Return the next content, `size` bytes at most; none if more data are needed."""
        at = 0
        found: list[bytes | memoryview] = []
        while True:
            part, self._unpacked = self._unpacked[:size], self._unpacked[size:]
            found.append(part)
            size -= len(part)
            if not size or self._decoder.eof or at == len(data):
                break
            piece = data[at : at + _ZSTD_BYTES]
            try:
                self._unpacked = memoryview(self._decoder.decompress(piece))
            except _library.ZstdError as error:
                raise ValueError(f"{error}") from None
            at += len(piece) - (len(self._decoder.unused_data) if self._decoder.eof else 0)
        self.unconsumed_tail = b"" if self.eof else data[at:]
        self.unused_data = data[at:] if self.eof else b""
        return b"".join(found)
