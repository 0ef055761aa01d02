"""Contents of files, compressed or not."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand.errors import DataError, StaleError
from sweephand.files.content_file import ContentFile
from sweephand.files.inflate import (
    Compression,
    InflatedFile,
    InflatedStream,
    compression_by_head,
    find_compression,
)
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import FIRST_BYTES, SourceFile

PACKINGS: tuple[Compression, ...] = ("gzip", "zstd")
"""The compressions of text."""

_MAX_EXPANSION = 200  # the times its size that a compressed file may unpack to

_BUFFER_BYTES = 1 << 20


class FileContents:
    """Reader of files by their unpacked content; indexes of compressed files are kept."""

    def __init__(self) -> None:
        self._inflated: dict[str, InflatedFile] = {}

    def __reduce__(self) -> tuple[type[FileContents], tuple[()]]:
        """Pickle without the unpacked state."""
        return type(self), ()

    def inflated(
        self,
        file: SourceFile,
        compression: Compression,
        members: Sequence[Sequence[int]] = (),
    ) -> InflatedFile:
        """Return the content of a compressed file."""
        known = self._inflated.get(file.path)
        # Until the index is there members are not known.
        if known is None or known.file != file or (members and not known.knows_members):
            known = InflatedFile(file, compression, _MAX_EXPANSION, members)
            self._inflated[file.path] = known
        return known

    def open(self, file: SourceFile, compression: Compression | None) -> io.BufferedReader:
        """Open a file that is read from the beginning of its content to the end."""
        if compression is None:
            return open_to_scan(file)
        raw = self.inflated(file, compression).open(packed=open_to_scan(file))
        return io.BufferedReader(raw, _BUFFER_BYTES)

    def open_text(self, file: SourceFile) -> tuple[io.BufferedReader, Compression | None]:
        """Open a file as text, and return its compression by its first bytes."""
        stream = open_to_scan(file)
        compression = compression_by_head(stream.peek(4)[:4])
        if compression not in PACKINGS:
            return stream, None
        raw = self.inflated(file, compression).open(packed=stream)
        return io.BufferedReader(raw, _BUFFER_BYTES), compression

    def measure(
        self, file: SourceFile, compression: Compression
    ) -> tuple[int, list[list[int]]]:
        """Return how long the content of a file is, and where its members begin."""
        with self.inflated(file, compression).open(packed=open_to_scan(file)) as stream:
            while stream.take(_BUFFER_BYTES):
                pass
            return stream.at, [list(one) for one in stream.members]

    def as_file(
        self, file: SourceFile, compression: Compression, size: int, members: list[list[int]]
    ) -> ContentFile:
        """Return the content of a compressed file, whose size is known, as a file."""
        content = self.inflated(file, compression, members)
        return ContentFile(file.path, file.name, size, file.tag, content)

    def head(self, file: SourceFile, compression: Compression | None, size: int) -> bytes:
        """Return the first bytes of the content; damage after them is ignored."""
        if compression is None:
            return file.head(size)
        if not isinstance(file, _FirstBytes):
            first = file.head(FIRST_BYTES)
            read = _FirstBytes(file.path, file.name, len(first), "", first)
            with suppress(DataError):  # in later parts
                found = FileContents().head(read, compression, size)
                if len(found) == size or len(first) == file.size:
                    return found
        stream = self.inflated(file, compression).open()
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

    def fetch(
        self,
        file: SourceFile,
        compression: Compression | None,
        place: tuple[int, int],
        padding: int,
        members: Sequence[Sequence[int]] = (),
    ) -> NDArray[np.uint8]:
        """Return a range of the content, and `padding` bytes more."""
        begin, end = place
        if compression is None:
            return file.fetch(begin, end - begin, padding)
        inflated = self.inflated(file, compression, members)
        return inflated.read_padded(begin, end - begin, padding)


def compression_of(file: SourceFile) -> Compression | None:
    """Return how text is compressed."""
    found = find_compression(file)
    return found if found in PACKINGS else None


def read_some(stream: io.BufferedReader, size: int) -> bytes:
    """Return the next bytes of a stream of `FileContents`: all that come before an error."""
    raw = stream.raw
    return raw.take(size) if isinstance(raw, InflatedStream) else stream.read(size)


def taken_from(stream: io.BufferedReader) -> int:
    """Return how many bytes of a file, as it is stored, a stream of `FileContents` has read."""
    raw = stream.raw
    return raw.taken if isinstance(raw, InflatedStream) else stream.tell()


def head_of_content(file: SourceFile, size: int, among: Collection[Compression]) -> bytes:
    """Return the first bytes of a file's content, unpacked if compressed as `among`."""
    compression = compression_by_head(file.head(4))
    return FileContents().head(file, compression if compression in among else None, size)


@dataclass(frozen=True)
class _FirstBytes(SourceFile):
    """The first bytes of a file, which were read already."""

    content: bytes

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        out[:] = np.frombuffer(self.content, np.uint8)[offset : offset + out.size]

    def check_unchanged(self) -> None:
        pass
