"""Files of lines in units, compressed or not: the common part of JSON lines and text."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus import chunks
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.units.indexed import IndexedDeserializer
from sweephand.deserializers.units.row_table import RowIds
from sweephand.deserializers.units.unit_scan import Columns, Facts, SampleType, UnitScan
from sweephand.errors import DataError, StaleError
from sweephand.files.contents import (
    PACKINGS,
    FileContents,
    compression_of,
    taken_from,
)
from sweephand.files.index_file import Advance, Index
from sweephand.files.index_places import Keep
from sweephand.files.inflate import Compression, InflatedStream
from sweephand.files.source_file import FileList, Files, SourceFile

UNIT_BYTES = 1 << 20
BOM = b"\xef\xbb\xbf"

_MAX_LINE_BYTES = 256 << 20
_MAX_UNIT_BYTES = 1 << 30  # a whole one is in memory at a time
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


_MOST_HEADER = 1 << 20


class LinePlace(NamedTuple):
    """Place of lines: their bytes in the content, and the first line and row among them."""

    begin: int
    end: int
    line: int
    row: int

    def after(self, num_lines: int, num_rows: int) -> LinePlace:
        """Return the place of the next lines, without their end."""
        return LinePlace(self.end, self.end, self.line + num_lines, self.row + num_rows)


class LineConverter(Protocol):
    """Makes columns of lines, and learns their types from line to line."""

    padding: int  # zeros that it needs after the text

    def convert(self, padded: NDArray[np.uint8], file: SourceFile, place: LinePlace) -> Columns:
        """Return the streams of whole lines; see `IndexedDeserializer.read_units`."""

    def kinds(self) -> dict[str, SampleType]:
        """Return the types of the streams that are known."""


class LineScan:
    """Result of the scan of a file, piece by piece."""

    def __init__(self, streams: list[str], file: SourceFile, converter: LineConverter) -> None:
        self.scan = UnitScan(lengths={name: [] for name in streams})
        self._units: list[list[int]] = []
        self.scan.facts["units"] = self._units
        self._file = file
        self._converter = converter
        self.begin_at(0)

    def begin_at(self, begin: int, line: int = 1) -> None:
        """Set the offset and number of the first line."""
        self._place = LinePlace(begin, begin, line, 0)

    def add(self, text: bytes, begins_unit: bool) -> None:
        """Add whole lines."""
        scan = self.scan
        place = self._place._replace(end=self._place.end + len(text))
        padded = np.frombuffer(text + bytes(self._converter.padding), np.uint8)
        columns, wrong = self._converter.convert(padded, self._file, place)
        for lengths, column in zip(scan.lengths.values(), columns, strict=True):
            if column.sample_offsets is not None:
                lengths.append(column.lengths)
        scan.add_faults(wrong, place.row)
        num_rows = columns[0].num_sequences
        scan.is_cut |= num_rows - 1 in wrong and not text.endswith(b"\n")
        if begins_unit or not self._units:
            self._units.append(list(place))
            scan.rows.append(0)
            scan.num_bytes.append(0)
        self._units[-1][1] = place.end
        scan.rows[-1] += num_rows
        scan.num_bytes[-1] += len(text)
        self._place = place.after(text.count(b"\n"), num_rows)

    def distrust(self, verified: int) -> int:
        """Drop the units that end after the part with a right checksum."""
        scan = self.scan
        kept = sum(unit[1] <= verified for unit in self._units)
        if kept < len(self._units):
            begin, _, line, row = self._units[kept]
            self._place = LinePlace(begin, begin, line, row)
        num_rows = sum(scan.rows[:kept])
        del self._units[kept:], scan.rows[kept:], scan.num_bytes[kept:]
        scan.damaged_rows = [row for row in scan.damaged_rows if row < num_rows]
        for name, parts in scan.lengths.items():
            scan.lengths[name] = [np.concatenate([np.empty(0, np.int64), *parts])[:num_rows]]
        return min(self._place.begin, verified)


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


def pieces_of(
    source: io.BufferedReader,
    file: SourceFile,
    begin: int,
    compression: Compression | None,
    finder: _core.formats.RowFinder | None = None,
) -> Iterator[tuple[bytes, bool]]:
    """Yield whole lines, about a unit of bytes at a time, with a flag if a unit begins.

    A frame of zstd is unpacked from its beginning, so that there a unit begins where a frame
    does: with the first line in it; but not in tables, whose rows a finder finds, as a line end
    there may be within a value.
    """
    if finder is not None:
        compression = None
    raw = source.raw
    at = first = begin
    while text := (
        read_rows(source, file, at, finder, UNIT_BYTES)
        if finder
        else _read_lines(source, file, at)
    ):
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
                    f"a frame unpacks to more than {_MAX_UNIT_BYTES} bytes, which are read as "
                    f"a whole: {how_to_cut(file.name, 'zstd')}",
                    file.path,
                )
            if stop > start:
                yield text[start:stop], begins_unit
        at += len(text)


def whole_of(source: io.BufferedReader, file: SourceFile) -> Iterator[tuple[bytes, bool]]:
    """Yield all that a file holds, which may be nothing."""
    content = source.read(_MAX_UNIT_BYTES + 1)
    if len(content) > _MAX_UNIT_BYTES:
        raise DataError(f"a document has more than {_MAX_UNIT_BYTES} bytes", file.path)
    yield content, True


def _next_line(text: bytes, at: int) -> int:
    """Return where the first line begins that does not begin before a place."""
    if at and text[at - 1 : at] != b"\n":
        at = text.find(b"\n", at) + 1
    return at or len(text)


def read_rows(
    source: io.BufferedReader,
    file: SourceFile,
    at: int,
    finder: _core.formats.RowFinder,
    size: int,
    most: int = _MAX_LINE_BYTES,
) -> bytes:
    """Return the next rows of a table, at least `size` bytes if there are as many."""
    parts = [source.read(size)]
    begin = finder.pass_all(parts[0])  # of the row that goes on
    num_bytes = len(parts[0]) - begin
    while not finder.is_between_rows and (near := source.peek()):
        parts.append(source.read(finder.pass_row(near)))
        num_bytes += len(parts[-1])
        if num_bytes > most:
            raise DataError(
                f"a row has more than {most} bytes; where quotes are letters, give "
                "quoting=None",
                file.path,
                at + begin,
            )
    return b"".join(parts)


def _read_lines(source: io.BufferedReader, file: SourceFile, at: int) -> bytes:
    """Return the next lines, about as many bytes as make a unit."""
    text = source.read(UNIT_BYTES)
    if text and not text.endswith(b"\n"):
        text += source.readline(_MAX_LINE_BYTES + 1)
        begin = text.rfind(b"\n", 0, -1) + 1
        if len(text) - begin > _MAX_LINE_BYTES:
            raise DataError(
                f"a line has more than {_MAX_LINE_BYTES} bytes; is this a file of lines?",
                file.path,
                at + begin,
            )
    return text


def how_to_cut(name: str, compression: str) -> str:
    """Return the advice on a file that can be entered at its beginning alone."""
    tool, suffix = {"gzip": ("gzip", "gz"), "zstd": ("zstd", "zst")}[compression]
    part = {"gzip": "member of gzip", "zstd": "frame of zstd"}[compression]
    return (
        f"{name} is a single {part}, which cannot be read from the middle; write several, as "
        f"'{tool} -dc {name} | split -l 100000 --filter=\"{tool} >> new.{suffix}\" -' does"
    )


class LineUnits(IndexedDeserializer):
    """Serve lines of files, about a MiB of them at a time."""

    float_bytes = 8  # numbers of text

    are_whole: bool = False
    """Each file is one sequence, not each line."""

    has_header: bool = False
    """The first row of each table is none of the others: `check_header` looks at it."""

    def __init__(
        self,
        files: Files | FileList,
        streams: StreamsLike | None = None,
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        self.contents = FileContents()
        self._known: list[tuple[SourceFile, Mapping[str, Any]]] = []  # when it is opened
        super().__init__(files, streams, index=index, ids=ids)

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments that open it in another process, the same before and after."""
        state = {**super().__getstate__(), "_known": []}
        state.pop("in_parts", None)  # as the opened corpus decides
        return state

    @abstractmethod
    def converter(self) -> LineConverter:
        """Return the converter of lines: of one file, or of the bytes read at a time."""

    def check_header(self, line: bytes, file: SourceFile) -> None:
        """Refuse a first row; see `has_header`."""

    def row_finder(self) -> _core.formats.RowFinder | None:
        """Return the finder of the rows of tables, whose values may hold line ends."""
        return None

    def head(self, size: int) -> bytes:
        """Return the first bytes of the first file's content."""
        return self._head_of(self.first_file, size)

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if a file has blank lines alone, after its header."""
        head = self._head_of(file, _MOST_HEADER).removeprefix(BOM)
        finder = self.row_finder()
        begin = finder.pass_row(head) if finder and self.has_header else 0
        is_open = b"\n" in head[:begin] and finder and not finder.is_between_rows  # in quotes
        return bool(is_open or head[begin:].strip())

    def _head_of(self, file: SourceFile, size: int) -> bytes:
        return self.contents.head(file, compression_of(file), size)

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Convert every line once."""
        source, compression = self.contents.open_text(file)
        converter = self.converter()
        found = LineScan(list(self.definitions), file, converter)
        scan = found.scan
        with source:
            raw = source.raw
            reported = 0
            try:
                begin = find_begin(source, file)
                finder = self.row_finder()
                line = 1
                header = b""
                if finder and self.has_header:
                    header = read_rows(source, file, begin, finder, 1, _MOST_HEADER)
                if header:
                    self.check_header(header, file)
                    begin += len(header)
                    line += header.count(b"\n")
                found.begin_at(begin, line)
                pieces = (
                    whole_of(source, file)
                    if self.are_whole
                    else pieces_of(source, file, begin, compression, finder)
                )
                for text, begins_unit in pieces:
                    found.add(text, begins_unit)
                    advance(taken_from(source) - reported)
                    reported = taken_from(source)
            except StaleError:
                raise
            except DataError as error:
                if not isinstance(raw, InflatedStream) or error.line is not None:
                    raise
                if self.are_whole:
                    found.add(b"", True)  # its one row, which keeps its number
                    scan.add_error(error, [0])
                else:
                    scan.add_error(error)  # the rest cannot be found
                    begin = found.distrust(raw.verified)
                    inflated = self.contents.inflated(file, compression or "gzip")
                    rest = inflated.read(begin, raw.verified - begin).tobytes()
                    finder = self.row_finder()
                    end = finder.pass_all(rest) if finder else rest.rfind(b"\n") + 1
                    if end:
                        found.add(rest[:end], True)
            if isinstance(raw, InflatedStream):
                scan.facts |= {"compression": compression, "members": raw.members}
        scan.kinds = converter.kinds()
        return scan

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Convert the lines of units."""
        first = LinePlace(*facts["units"][begin])
        stop = facts["units"][end - 1][1]
        converter = self.converter()
        padded = self.contents.fetch(
            file,
            facts.get("compression"),
            (first.begin, stop),
            converter.padding,
            facts.get("members", ()),
        )
        if not padded.flags.writeable:  # the answer of a store
            padded = padded.copy()
        padded[stop - first.begin :] = 0
        return converter.convert(padded, file, first._replace(end=stop))

    def load_index(self) -> Index:
        """Return the facts of the files, found now or before."""
        index = super().load_index()
        facts = [one["format"] for one in index.facts]
        self._known = list(zip(index.files, facts, strict=True))
        # Compressed files take less time if more is unpacked at once.
        self.in_parts = not any("compression" in one for one in facts)
        return index

    @property
    def advice(self) -> list[str]:
        """Advice for faster reading: files of one zstd frame should be cut into several."""
        found = []
        for file, facts in self._known:
            whole = facts["units"][-1][1] if facts["units"] else 0
            is_one = len(facts.get("members", ())) == 1 and whole > chunks.CHUNK_BYTES
            if is_one and facts.get("compression") in PACKINGS:
                found.append(how_to_cut(file.name, facts["compression"]))
        return found
