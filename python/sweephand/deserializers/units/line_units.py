"""What follows one after the other in files, compressed or not: lines, or records.

A format gives whole items of a file's content, and a converter of them to columns.
"""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand.deserializers.units.indexed import IndexedDeserializer
from sweephand.deserializers.units.unit_scan import Columns, Facts, SampleType, UnitScan
from sweephand.errors import DataError, StaleError
from sweephand.files.index_file import Advance
from sweephand.files.inflate import (
    Compression,
    FileContents,
    InflatedStream,
    compression_of,
    taken_from,
)
from sweephand.files.source_file import SourceFile

UNIT_BYTES = 1 << 20
BOM = b"\xef\xbb\xbf"
MOST_LINE_BYTES = 256 << 20

_MAX_UNIT_BYTES = 1 << 30  # a whole one is in memory at a time
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_MOST_LOOKED_AT = 1 << 20

Pieces = Iterator[tuple[bytes, bool]]
"""Whole items, about a unit of bytes at a time, with a flag if a unit begins."""


class LinePlace(NamedTuple):
    """Place of lines: their bytes in the content, and the first line and row among them."""

    begin: int
    end: int
    line: int
    row: int


class LineConverter(Protocol):
    """Makes columns of lines or records, and learns their types from one to the next."""

    padding: int  # zeros that it needs after the text

    def convert(self, padded: NDArray[np.uint8], file: SourceFile, place: LinePlace) -> Columns:
        """Return the streams of whole items; see `IndexedDeserializer.read_units`."""

    def kinds(self) -> dict[str, SampleType]:
        """Return the types of the streams that are known."""


class LineScan(UnitScan):
    """Result of the scan of a file, piece by piece."""

    def __init__(
        self, streams: Iterable[str], file: SourceFile, converter: LineConverter, is_text: bool
    ) -> None:
        super().__init__(lengths={name: [] for name in streams})
        self.units: list[list[int]] = []
        self.facts["units"] = self.units
        self.file, self.converter, self.is_text = file, converter, is_text
        self.begin_at(0)

    def begin_at(self, begin: int) -> None:
        """Set the offset of the first line."""
        self.place = LinePlace(begin, begin, 1, 0)

    def pass_over(self, text: bytes) -> None:
        """Leave out what is no item, as the first row of a table."""
        end = self.place.end + len(text)
        self.place = LinePlace(end, end, self.place.line + text.count(b"\n"), self.place.row)

    def add(self, text: bytes, begins_unit: bool) -> None:
        """Add whole items."""
        place = self.place._replace(end=self.place.end + len(text))
        padded = np.frombuffer(text + bytes(self.converter.padding), np.uint8)
        columns, wrong = self.converter.convert(padded, self.file, place)
        for lengths, column in zip(self.lengths.values(), columns, strict=True):
            if column.sample_offsets is not None:
                lengths.append(column.lengths)
        self.add_faults(wrong, place.row)
        num_rows = columns[0].num_sequences
        if self.is_text:
            self.is_cut |= num_rows - 1 in wrong and not text.endswith(b"\n")
        if begins_unit or not self.units:
            self.units.append(list(place))
            self.rows.append(0)
            self.num_bytes.append(0)
        self.units[-1][1] = place.end
        self.rows[-1] += num_rows
        self.num_bytes[-1] += (
            len(text) if self.is_text else sum(one.num_bytes for one in columns)
        )
        self.pass_over(text)
        self.place = self.place._replace(row=place.row + num_rows)

    def distrust(self, verified: int) -> int:
        """Drop the units that end after the part with a right checksum."""
        kept = sum(unit[1] <= verified for unit in self.units)
        if kept < len(self.units):
            begin, _, line, row = self.units[kept]
            self.place = LinePlace(begin, begin, line, row)
        num_rows = sum(self.rows[:kept])
        del self.units[kept:], self.rows[kept:], self.num_bytes[kept:]
        self.damaged_rows = [row for row in self.damaged_rows if row < num_rows]
        for name, parts in self.lengths.items():
            self.lengths[name] = [np.concatenate([np.empty(0, np.int64), *parts])[:num_rows]]
        return min(self.place.begin, verified)


def find_begin(source: io.BufferedReader, file: SourceFile) -> int:
    """Go to the first line, after a byte order mark, and return its offset."""
    try:
        head = source.peek(4)[:4]
    except StaleError:
        raise
    except DataError:
        return 0  # which is found again
    if head.startswith(_UTF_16):
        raise DataError("the file is in UTF-16", file.path, 0)
    return len(source.read(len(BOM))) if head.startswith(BOM) else 0


def lines_of(
    source: io.BufferedReader, file: SourceFile, begin: int, compression: Compression | None
) -> Pieces:
    """Yield whole lines; with zstd a unit begins with a frame, which is unpacked as a whole."""
    raw = source.raw
    at = first = begin
    while text := _read_lines(source, file, at):
        cuts = [0]
        if compression == "zstd" and isinstance(raw, InflatedStream):
            inside = [one - at for one, _ in raw.members if at < one <= at + len(text)]
            cuts += [_next_line(text, one) for one in inside]
        is_cut = compression != "zstd"
        for start, stop in zip(cuts, [*cuts[1:], len(text)], strict=True):
            begins_unit = is_cut or (start > 0 and at + start - first >= UNIT_BYTES)
            if begins_unit:
                first = at + start
            if at + stop - first > _MAX_UNIT_BYTES:
                raise DataError(
                    f"a frame of zstd unpacks to more than {_MAX_UNIT_BYTES} bytes, which are "
                    "read as a whole: write several frames, as docs/formats.md shows",
                    file.path,
                )
            if stop > start:
                yield text[start:stop], begins_unit
        at += len(text)


def _next_line(text: bytes, at: int) -> int:
    """Return where the first line begins that does not begin before a place."""
    if at and text[at - 1 : at] != b"\n":
        at = text.find(b"\n", at) + 1
    return at or len(text)


def _read_lines(source: io.BufferedReader, file: SourceFile, at: int) -> bytes:
    """Return the next lines, about as many bytes as make a unit."""
    text = source.read(UNIT_BYTES)
    if text and not text.endswith(b"\n"):
        text += source.readline(MOST_LINE_BYTES + 1)
        begin = text.rfind(b"\n", 0, -1) + 1
        if len(text) - begin > MOST_LINE_BYTES:
            raise DataError(
                f"a line has more than {MOST_LINE_BYTES} bytes; is this a file of lines?",
                file.path,
                at + begin,
            )
    return text


class LineUnits(IndexedDeserializer):
    """Serve lines or records of files, about a MiB of them at a time."""

    float_bytes = 8  # numbers of text
    in_parts = True
    is_text: ClassVar[bool] = True  # lines; a record has checksums, and values of any bytes

    @cached_property
    def contents(self) -> FileContents:
        """The reader of files by their unpacked content."""
        return FileContents()

    @abstractmethod
    def converter(self) -> LineConverter:
        """Return the converter of lines: of one file, or of the bytes read at a time."""

    def opened(self, file: SourceFile) -> tuple[io.BufferedReader, Compression | None]:
        """Open the content of a file, and say how it is compressed."""
        return self.contents.open_text(file)

    def pieces(
        self,
        source: io.BufferedReader,
        file: SourceFile,
        compression: Compression | None,
        scan: LineScan,
    ) -> Pieces:
        """Yield the items of a file; what comes before the first is passed over in the scan."""
        scan.begin_at(find_begin(source, file))
        yield from lines_of(source, file, scan.place.end, compression)

    def end_of_whole(self, text: bytes) -> int:
        """Return how many bytes of a text that is cut somewhere are whole lines."""
        return text.rfind(b"\n") + 1

    def head(self, size: int) -> bytes:
        """Return the first bytes of the first file's content."""
        return self.head_of(self.first_file, size)

    def head_of(self, file: SourceFile, size: int = _MOST_LOOKED_AT) -> bytes:
        """Return the first bytes of a file's content."""
        return self.contents.head(file, compression_of(file), size)

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if a file has blank lines alone."""
        return bool(self.head_of(file).removeprefix(BOM).strip())

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        source, compression = self.opened(file)
        converter = self.converter()
        scan = LineScan(self.definitions, file, converter, self.is_text)
        with source:
            raw = source.raw
            reported = 0
            try:
                for text, begins_unit in self.pieces(source, file, compression, scan):
                    scan.add(text, begins_unit)
                    advance(taken_from(source) - reported)
                    reported = taken_from(source)
            except StaleError:
                raise
            except DataError as error:
                is_packed = isinstance(raw, InflatedStream)
                if self.is_text and (not is_packed or error.line is not None):
                    raise
                scan.add_error(error)  # the rest cannot be found
                if self.is_text and isinstance(raw, InflatedStream):
                    self._add_verified(scan, raw.verified, compression or "gzip")
            if isinstance(raw, InflatedStream):
                scan.facts |= {"compression": compression, "members": raw.members}
        scan.kinds = converter.kinds()
        return scan

    def _add_verified(self, scan: LineScan, verified: int, compression: Compression) -> None:
        """Keep of a damaged text what has a right checksum."""
        begin = scan.distrust(verified)
        inflated = self.contents.inflated(scan.file, compression)
        rest = inflated.read(begin, verified - begin).tobytes()
        if end := self.end_of_whole(rest):
            scan.add(rest[:end], True)

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        first = LinePlace(*facts["units"][begin])
        stop = facts["units"][end - 1][1]
        converter = self.converter()
        place = first.begin, stop - first.begin, converter.padding
        if compression := facts.get("compression"):
            members = facts.get("members", ())
            padded = self.contents.inflated(file, compression, members).read(*place)
        else:
            padded = file.fetch(*place)
        if not padded.flags.writeable:  # the answer of a store
            padded = padded.copy()
        padded[stop - first.begin :] = 0
        return converter.convert(padded, file, first._replace(end=stop))
