"""Files of lines in units, compressed or not: the common part of JSON lines and text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus import chunks
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.units.indexed import IndexedDeserializer
from sweephand.deserializers.units.line_scan import (
    BOM,
    LineConverter,
    LinePlace,
    LineScan,
    find_begin,
    how_to_cut,
    pieces_of,
    read_rows,
    whole_of,
)
from sweephand.deserializers.units.row_ids import RowIds
from sweephand.deserializers.units.unit_scan import Columns, Facts, UnitScan
from sweephand.errors import DataError, StaleError
from sweephand.files.contents import (
    MAX_EXPANSION,
    PACKINGS,
    FileContents,
    compression_of,
    taken_from,
)
from sweephand.files.index_file import Advance, Index
from sweephand.files.index_places import Keep
from sweephand.files.inflate import InflatedStream
from sweephand.files.source_file import FileList, Files, SourceFile

_MOST_HEADER = 1 << 20


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
        max_expansion: int = MAX_EXPANSION,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        check_int("max_expansion", max_expansion, 1, 2**31)
        self.contents = FileContents(max_expansion)
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
