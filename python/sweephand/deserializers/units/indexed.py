"""Files read in units by an index: the common part of Parquet, Arrow, JSON lines and more.

A format that counts its rows before it reads them is a `RunDeserializer`::

    rows     0 1 2 3 4 5 6 7 8 9 ...
    runs    |     |   |       |       what is read, or lost, as a whole: a format says where
    units   |         |       |       runs joined until they are about as many bytes
"""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand import _core
from sweephand.base.checks import OptionalModule
from sweephand.corpus import chunks
from sweephand.corpus.casts import cast, unmasked
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import (
    ColumnData,
    blank_column,
    concat_columns,
    describe_stream,
    offsets_of,
    spread,
    take,
)
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ids import GivenIds, Keys, NumberKeys
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamInfo, StreamsLike, choose_streams, sizing_streams
from sweephand.deserializers.deserializer import brief
from sweephand.deserializers.open_path import SelfDescribed
from sweephand.deserializers.units.unit_scan import (
    Columns,
    Facts,
    RowIds,
    RowTable,
    SampleType,
    UnitScan,
    common_types,
    guarded,
    read_ids,
)
from sweephand.errors import DataError, StaleError
from sweephand.files.find import find_shards
from sweephand.files.index_file import Advance, Index, Keep, Scan, check_keep, load_index
from sweephand.files.local import LocalFile, access_to
from sweephand.files.source_file import (
    FileList,
    Files,
    SourceFile,
    empty_corpus,
    refuse_pointer,
)

_NOT_INDEXED = "the rows are not those that the index was built of"

_NO_LIMIT = 2**62
_MOST_POINTER = 1024  # bytes of a pointer, by its specification


@dataclass(frozen=True)
class UnitLoader:
    """Loads chunks of rows; the ledger counts those that only then prove to be damaged."""

    reader: IndexedDeserializer
    rows: RowTable
    ledger: Ledger

    def load(self, number: int) -> _core.read.Chunk:
        """Return a chunk or a part of one; newly found damage is skipped."""
        first, end = self.rows.load_units[number : number + 2].tolist()
        parts: list[list[ColumnData]] = []
        skipped: list[int] = []  # rows
        with guarded(self._file_of(first)[0].path):  # memory may lack for blank rows too
            files = np.clip(self.rows.index.starts["rows"], first, end)
            for begin, stop in pairwise(np.unique(files).tolist()):
                self._read_or_skip(begin, stop, parts, skipped)
            columns = [concat_columns(one) for one in zip(*parts, strict=True)]
            first_row = int(self.rows.unit_rows[first])
            skipped = [row - first_row for row in skipped]
            return make_chunk(columns, owned=not self.reader.is_resident, skipped=skipped)

    def _file_of(self, unit: int) -> tuple[SourceFile, Facts, int]:
        """Return the file of a unit, its facts, and its first unit."""
        index = self.rows.index
        number = int(np.searchsorted(index.starts["rows"], unit, side="right")) - 1
        first = int(index.starts["rows"][number])
        return index.files[number], index.facts[number]["format"], first

    def _read_or_skip(
        self, begin: int, end: int, parts: list[list[ColumnData]], skipped: list[int]
    ) -> None:
        """Read units of a file; after a failure each by itself, to lose as few as possible."""
        rows = self.rows.rows_of(begin, end)
        known = (rows.start + np.flatnonzero(~self.rows.is_served[rows])).tolist()
        if len(known) == rows.stop - rows.start:
            parts.append(self._blank(rows))
            skipped += known
            return
        try:
            columns, wrong = self._read(begin, end)
        except StaleError:
            raise
        except DataError as error:
            if end - begin > 1:
                for unit in range(begin, end):
                    self._read_or_skip(unit, unit + 1, parts, skipped)
            else:
                self.ledger.add(error)
                parts.append(self._blank(rows))
                skipped += range(rows.start, rows.stop)
            return
        parts.append(columns)
        skipped += known
        for row, reason in wrong.items():
            if self.rows.is_served[rows.start + row]:  # the index does not know
                self.ledger.add(reason)
                skipped.append(rows.start + row)

    def _read(self, begin: int, end: int) -> Columns:
        file, facts, first = self._file_of(begin)
        with guarded(file.path):
            columns, wrong = self.reader.read_units(file, facts, begin - first, end - first)
        if not isinstance(file, LocalFile):  # which was looked at when it was read
            file.check_unchanged()
        rows = self.rows.rows_of(begin, end)
        usable = np.flatnonzero(self.rows.is_served[rows])
        num_rows = rows.stop - rows.start
        checked = []
        for column, (name, kind) in zip(columns, self.reader.kinds.items(), strict=True):
            if column.dtype != kind.dtype and SampleType.of(column).is_like(kind):
                column, faults = _cast(column, np.dtype(kind.dtype))
                for row, reason in faults.items():
                    _, at = self.rows.place_of(rows.start + row)
                    lost = DataError(reason, file.path, stream=name, sequence=at)
                    wrong.setdefault(row, lost)
            if kind.is_ragged and len(usable) < num_rows == column.num_sequences:
                column = spread(take(column, usable), usable, num_rows)
            if SampleType.of(column) != kind or column.num_sequences != num_rows:
                raise StaleError(f"{_NOT_INDEXED}; delete the index", file.path, stream=name)
            lengths = column.lengths
            for row in np.flatnonzero(lengths != self.rows.lengths_of(name, rows)).tolist():
                found = f"the row has {lengths[row]} samples; {_NOT_INDEXED}"
                _, at = self.rows.place_of(rows.start + row)
                wrong.setdefault(row, StaleError(found, file.path, stream=name, sequence=at))
            checked.append(column)
        return checked, wrong

    def _blank(self, rows: slice) -> list[ColumnData]:
        return [
            blank_column(kind.to_column(), self.rows.lengths_of(name, rows))
            for name, kind in self.reader.kinds.items()
        ]


def _cast(column: ColumnData, dtype: np.dtype[np.generic]) -> tuple[ColumnData, dict[int, str]]:
    """Return a column as another dtype, and what is wrong with the rows that do not fit."""
    assert column.values is not None
    faults: dict[int, str] = {}
    try:
        values = cast(column.values, dtype)
    except ValueError:
        values = np.zeros(column.values.shape, dtype)
        ends = column.sample_offsets
        ends = np.arange(len(values) + 1) if ends is None else ends
        for row, (begin, end) in enumerate(pairwise(ends.tolist())):
            try:
                values[begin:end] = cast(column.values[begin:end], dtype)
            except ValueError as error:
                faults[row] = str(error)
    return replace(column, values=values, dtype=dtype), faults


class IndexedDeserializer(SelfDescribed):
    """Serve the rows of files, each a sequence, by reading runs of units."""

    format: ClassVar[str]  # with its version: part of the meaning of an index
    decoder: ClassVar[OptionalModule | None] = None  # the package that it cannot do without
    float_bytes: ClassVar[int] = 0  # the least that a parsed one takes
    # Numbers of several types in several files are read as a declared dtype.
    is_cast: ClassVar[bool] = False
    id_dtype: ClassVar[DTypeLike | None] = None  # that ids are read as
    order: NDArray[np.int64] | None = None  # the row that each sequence is; None: as they come
    # The rows are in memory already: every unit is a chunk that costs nothing.
    is_resident: bool = False
    # Chunks are loaded in parts, when a sequence in them is wanted.
    in_parts: ClassVar[bool] = False
    # Fields of the first file that cannot be served by themselves, and why.
    left_out: Mapping[str, str] = MappingProxyType({})
    options: Mapping[str, Any] = MappingProxyType({})  # what else decides what a scan finds

    def __init__(
        self,
        files: Files | FileList,
        streams: StreamsLike | None = None,
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        if self.decoder is not None:
            self.decoder()  # says what to install
        self.keep = check_keep(index)
        self.ids = ids
        found = files if isinstance(files, FileList) else find_shards(files)
        self.files = found.files
        with guarded(self.files[0].path):
            self.definitions = choose_streams(streams, self.guess_streams)
        if streams is None and self.left_out:
            reasons = "; ".join(f"{name!r}: {why}" for name, why in self.left_out.items())
            warnings.warn(
                f"{self.files[0].path}: what cannot be served by itself is left out, "
                f"{reasons:.400}; give the names of the streams that are wanted",
                stacklevel=3,
            )
        self.fields = {name: one.field or name for name, one in self.definitions.items()}
        self.kinds: Mapping[str, SampleType] = {}  # known when it is opened
        for stream, own in self.fields.items():
            self.check_field(own, stream)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "kinds": {}}

    @cached_property
    def first_file(self) -> SourceFile:
        """The first file that is not empty, from which the streams are guessed."""
        for file in self.files:
            self._refuse_pointer(file)
            if self.has_rows(file):
                return file
        raise empty_corpus([file.path for file in self.files])

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if a file is known to hold no row, by a look at its beginning or end."""
        return True

    def check_field(self, field: str, stream: str) -> None:
        """Refuse the field of a stream, if that needs no look at the rows."""

    @abstractmethod
    def guess_streams(self) -> StreamDefs:
        """Return the streams of `first_file`; `left_out` says what it has besides."""

    @abstractmethod
    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Find the units of a file, reading it at most once."""

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Read units ``[begin, end)`` of a file; rows are counted from the first of them."""
        raise NotImplementedError  # where `make_reader` does without

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read; the index is built if need be."""
        rows, infos = self._open_rows(ledger)
        index = rows.index
        names = None
        if isinstance(self.ids, str):
            names = read_ids(rows, self.ids, *self._open_ids(self.ids))
            if self.order is not None:
                names = [names[row] for row in self.order.tolist()]
        elif self.ids is not None:
            names = [str(one) for one in np.asarray(unmasked("ids", self.ids)).tolist()]
            if len(names) != rows.chunks.total:
                raise ValueError(
                    f"{len(names)} ids are given for {rows.chunks.total} sequences"
                )
        return StoredCorpus(
            [self.make_reader(rows, infos, ledger)],
            ids=rows.ids if names is None else GivenIds(names),
            names=[file.name for file in self.files],
            chunks=rows.chunks,
            keys=_numbers_of(index) if names is None else lambda: names,
            index=index.path,
            files=self.files,
        )

    def _open_rows(self, ledger: Ledger) -> tuple[RowTable, list[StreamInfo]]:
        """Return the rows and what there is of each, by an index that is built if need be."""
        index = self.load_index()
        for file, facts in zip(index.files, index.facts, strict=True):
            for reason, _, *place in facts["errors"]:
                ledger.add(DataError(reason, file.path, *place))
        if not index.arrays["rows"].any():
            raise empty_corpus([file.path for file in index.files])
        dtypes = {n: np.dtype(one.dtype) for n, one in self.definitions.items() if one.dtype}
        declared = {name: dtype for name, dtype in dtypes.items() if dtype.kind in "biuf"}
        kinds = self.kinds = common_types(
            index, self.fields, self.guess_streams, declared if self.is_cast else {}
        )
        infos = [
            describe_stream(name, kinds[name].to_column(), definition)
            for name, definition in self.definitions.items()
        ]
        rows = RowTable(
            index,
            {
                name: index.arrays[f"lengths of {name}"] if kind.is_ragged else None
                for name, kind in kinds.items()
            },
            sizing_streams({info.name: info for info in infos}),
            ledger,
            order=self.order,
            chunk_per_unit=self.is_resident,
            # Compressed files take less time if more is unpacked at once.
            in_parts=self.in_parts
            and not any("compression" in facts["format"] for facts in index.facts),
            chunk_bytes=self.chunk_bytes(),
        )
        infos = [replace(info, is_single=rows.is_single(info.name)) for info in infos]
        return rows, infos

    def chunk_bytes(self) -> int | None:
        """Return the bytes of a chunk by `kinds`; None for the usual size."""
        return None

    def make_reader(
        self, rows: RowTable, infos: Sequence[StreamInfo], ledger: Ledger
    ) -> StoredReader:
        """Return the loader of rows."""
        loader = UnitLoader(self, rows, ledger)
        return StoredReader(
            core=_core.read.CallbackDeserializer(loader.load),
            streams=infos,
            chunks=rows.chunk_rows,
            measure=rows.measure,
            resident=self.is_resident,
            numbers=rows.numbers,
            parts=rows.parts,
            sample_bytes=rows.sample_bytes,
            is_parsed=True,
            float_bytes=self.float_bytes,
            load_threads=access_to(self.files).threads(2),
            holds_stored=True,
        )

    def _description(self) -> str:
        return brief([file.name for file in self.files], self.definitions)

    def _open_ids(self, field: str) -> tuple[RowTable, StoredReader]:
        """Return the rows with one field alone, in the order of the files."""
        alone = copy.copy(self)
        alone.ids = alone.order = None
        alone.definitions = StreamDefs({field: StreamDef(field=field, dtype=self.id_dtype)})
        alone.fields = {field: field}
        alone.kinds = {}
        ledger = Ledger(_NO_LIMIT)  # what is wrong is counted where the streams are read
        try:
            rows, infos = alone._open_rows(ledger)
        except DataError as error:  # also that no row is left
            raise (ledger.errors or [error])[0] from None
        return rows, alone.make_reader(rows, infos, ledger)

    def load_index(self) -> Index:
        """Return the facts of the files, found now or before."""
        definitions = {
            name: [self.fields[name], one.shape, str(one.dtype)]
            for name, one in self.definitions.items()
        }
        meaning = {"format": self.format, "streams": definitions, **self.options}
        return load_index(self.files, meaning, self._scan, keep=self.keep)

    def _refuse_pointer(self, file: SourceFile) -> None:
        if file.size < _MOST_POINTER and not self.is_resident:
            refuse_pointer(file.head(file.size), file.path)

    def _scan(self, file: SourceFile, advance: Advance) -> Scan:
        self._refuse_pointer(file)
        with guarded(file.path):
            found = self.scan_units(file, advance)
        file.check_unchanged()
        return found.to_scan(file, self.definitions)


def _numbers_of(index: Index) -> Keys | None:
    """Return the join keys of rows without ids: None, their numbers, if all are known."""
    row_starts = offsets_of(index.arrays["rows"])[index.starts["rows"]]
    for file, facts, end in zip(index.files, index.facts, row_starts[1:], strict=True):
        if facts["is_cut"] and end < row_starts[-1]:
            return NumberKeys(np.empty(0, np.uint64), lost_in=file.path)
    return None


@dataclass
class KnownRows:
    """Facts of the rows of a file that are known before they are read."""

    # first rows of runs that are read, or lost, as a whole
    borders: Sequence[int] | NDArray[np.int64]
    run_bytes: float | NDArray[Any] = 0  # memory of each; a number is a guess until all is read
    # of streams; others are learnt from their values
    kinds: Mapping[str, SampleType] = field(default_factory=dict)
    # samples of every row, of streams of lists; others are learnt from their values
    lengths: Mapping[str, NDArray[np.integer]] = field(default_factory=dict)
    unsure: Collection[str] = ()  # streams that are read although all this is known of them
    # damaged items, and the rows that are lost; None: the rest, however many
    faults: Sequence[tuple[DataError, Iterable[int] | None]] = ()
    facts: dict[str, Any] = field(default_factory=dict)  # what it takes to read them, as JSON
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)  # and as arrays


@dataclass(frozen=True)
class RowRun:
    """Rows of a file that are read together."""

    file: SourceFile
    facts: Facts  # those of `KnownRows`
    begin: int  # by their numbers in the file
    end: int
    streams: Sequence[str]  # that are wanted
    kinds: Mapping[str, SampleType]  # as far as known; of all streams, once the index is there

    def __len__(self) -> int:
        return self.end - self.begin


class RunDeserializer(IndexedDeserializer):
    """Serve rows that a format counts, and reads run by run."""

    unit_bytes: ClassVar[int] = 0  # runs are joined until they are as many; 0: each is a unit

    @abstractmethod
    def find_rows(self, file: SourceFile) -> KnownRows:
        """Return what is known of the rows of a file before they are read."""

    @abstractmethod
    def read_rows(self, run: RowRun) -> Columns:
        """Read rows; a DataError if none of them can be read."""

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        found = self.find_rows(file)
        scan = UnitScan(kinds=dict(found.kinds), facts=found.facts, arrays=found.arrays)
        for error, rows in found.faults:
            scan.add_error(error, rows)
        unread = [
            name
            for name in self.definitions
            if name in found.unsure
            or name not in found.kinds
            or (found.kinds[name].is_ragged and name not in found.lengths)
        ]
        units = [0]
        lengths: dict[str, list[NDArray[np.integer]]] = {name: [] for name in unread}
        for part, num_bytes, columns in self._read_all(file, found, unread, scan):
            units.append(part.end)
            scan.rows.append(len(part))
            scan.num_bytes.append(num_bytes)
            none = np.zeros(len(part), np.int64)
            for at, name in enumerate(unread):
                lengths[name].append(columns[at].lengths if columns else none)
                if columns and name not in found.kinds and columns[at].num_samples:
                    scan.kinds[name] = SampleType.of(columns[at])
            advance(file.size * len(part) // int(found.borders[-1]))
        if len(units) <= units[-1]:  # else each is a row
            scan.facts["units"] = units
        for name in self.definitions:
            if name not in scan.kinds or scan.kinds[name].is_ragged:
                scan.lengths[name] = lengths[name] if name in lengths else [found.lengths[name]]
        return scan

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        if units := facts.get("units"):
            begin, end = units[begin], units[end]
        return self.read_rows(RowRun(file, facts, begin, end, [*self.definitions], self.kinds))

    def _read_all(
        self, file: SourceFile, found: KnownRows, unread: Sequence[str], scan: UnitScan
    ) -> Iterator[tuple[RowRun, int, list[ColumnData]]]:
        """Read the units of a file, with the memory of each; what is lost has no columns."""
        borders = np.asarray(found.borders, np.int64)
        is_filled = np.diff(borders) > 0
        run_bytes = np.broadcast_to(np.asarray(found.run_bytes), len(is_filled))[is_filled]
        borders = np.append(borders[:-1][is_filled], borders[-1:])
        starts = np.append(np.zeros(1, run_bytes.dtype), np.cumsum(run_bytes))
        is_lost = np.zeros(borders[-1] if len(borders) else 0, np.bool_)
        is_lost[scan.damaged_rows] = True
        is_measured = np.isscalar(found.run_bytes) and len(unread) == len(self.definitions)

        def read(first: int, stop: int) -> Iterator[tuple[RowRun, int, list[ColumnData]]]:
            begin, end = borders[[first, stop]].tolist()
            run = RowRun(file, found.facts, begin, end, unread, scan.kinds)
            num_bytes = int(starts[stop] - starts[first])
            columns: list[ColumnData] = []
            try:
                if unread and not is_lost[begin:end].all():
                    columns, wrong = self.read_rows(run)
                    scan.add_faults(wrong, begin)
            except StaleError:
                raise
            except DataError as error:
                if stop - first > 1:  # to lose as few rows as possible
                    for at in range(first, stop):
                        yield from read(at, at + 1)
                    return
                scan.add_error(error.within(file=file.path), range(begin, end))
            if columns and is_measured:
                num_bytes = sum(one.num_bytes for one in columns)
            yield run, num_bytes, columns

        firsts = np.arange(len(run_bytes))
        if least := min(self.unit_bytes, chunks.CHUNK_BYTES):
            firsts = np.flatnonzero(np.diff(starts[:-1] // least, prepend=-1))
        for first, stop in pairwise([*firsts.tolist(), len(run_bytes)]):
            yield from read(first, stop)
