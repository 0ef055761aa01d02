"""Files that are read in units, found by an index: what Parquet, Arrow and JSON lines share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import ColumnData, blank_column, concat_columns, spread, take
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.describe import describe_stream
from sweephand.corpus.ids import GivenIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import Reader
from sweephand.corpus.streams import StreamDefs, size_stream
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.units.kept_scans import check_scan
from sweephand.deserializers.units.row_ids import RowIds, names_of_rows
from sweephand.deserializers.units.rows import Rows
from sweephand.errors import DataError, StaleError
from sweephand.files.index_file import Advance, Index, Keep, Scan, check_keep, load_index
from sweephand.files.source_file import REMOTE_LOAD_THREADS, FileList, SourceFile, are_local

_MOST_ERRORS = 10_000
_MOST_SAMPLES = 2**32 - 1
_NOT_INDEXED = "the rows are not those that the index was built of"


@dataclass(frozen=True)
class Kind:
    """What the samples of a stream are: numbers of a dtype and shape, or bytes."""

    dtype: str
    shape: tuple[int, ...] = ()
    is_ragged: bool = False

    @classmethod
    def of(cls, column: ColumnData) -> Self:
        """Return the kind of a column."""
        dtype = "bytes" if column.is_bytes else column.dtype.name
        return cls(dtype, column.shape, column.sample_offsets is not None)

    def to_column(self) -> ColumnData:
        """Return a column of this kind without sequences."""
        offsets = np.zeros(1, np.int64)
        dtype = np.dtype(np.uint8 if self.dtype == "bytes" else self.dtype)
        return ColumnData(
            values=np.empty((0, *self.shape), dtype),
            dtype=dtype,
            shape=self.shape,
            num_samples=0,
            sample_offsets=offsets if self.is_ragged else None,
            element_offsets=offsets if self.dtype == "bytes" else None,
        )

    def __str__(self) -> str:
        shape = f" of shape {self.shape}" if self.shape else ""
        return f"{'lists of ' if self.is_ragged else ''}{self.dtype}{shape}"


@dataclass
class UnitScan:
    """What a scan finds in one file.

    Attributes
    ----------
    kinds : dict of Kind
        Per stream; one of which the file says nothing is left out.
    rows, num_bytes : list of int
        Per unit: its rows, and the memory that its columns take.
    lengths : dict of list of ndarray
        Per ragged stream and unit: the samples of each row.
    damaged_rows : list of int
        Rows of the file that cannot be served.
    errors : list of DataError
        Why not, and what else is damaged.
    facts : dict
        What it takes to read the units, as JSON.
    """

    kinds: dict[str, Kind] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    num_bytes: list[int] = field(default_factory=list)
    lengths: dict[str, list[NDArray[np.integer]]] = field(default_factory=dict)
    damaged_rows: list[int] = field(default_factory=list)
    errors: list[DataError] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def add_error(self, error: DataError) -> None:
        """List a damaged item."""
        if len(self.errors) == _MOST_ERRORS:
            error.add_note(f"{_MOST_ERRORS} items before it are damaged; no more are listed")
            raise error
        self.errors.append(error)


class IndexedDeserializer(Deserializer):
    """Serve the rows of files, each a sequence, by reading runs of units.

    Parameters
    ----------
    files : FileList
        What `find_files` found.
    streams : StreamDefs
        What is wanted of every row.
    index : {"auto", "cache", None}
        Where the index is kept; see `load_index`.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a field, which is read whenever the
        corpus is opened, or one for each of them.

    Attributes
    ----------
    order : ndarray of int64 or None
        The row that each sequence is; None: the rows one after the other.
    is_resident : bool
        The rows lie in memory already: every unit is a chunk that costs nothing.
    options : dict
        What else decides what a scan finds, as JSON.
    """

    format: ClassVar[str]  # with its version: part of the meaning of an index

    order: NDArray[np.int64] | None = None
    is_resident: bool = False
    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self,
        files: FileList,
        streams: StreamDefs,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        if not streams:
            raise ValueError("give at least one stream")
        self.keep = check_keep(index)
        self.ids = ids
        self.definitions = streams
        self.fields = {name: one.field or name for name, one in streams.items()}
        self.kinds: Mapping[str, Kind] = {}  # known when it is opened
        self.files = files.files
        self.leftovers = files.leftovers

    @abstractmethod
    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Learn what units a file has, reading it at most once."""

    @abstractmethod
    def read_units(
        self, file: SourceFile, facts: Mapping[str, Any], begin: int, end: int
    ) -> tuple[list[ColumnData], dict[int, DataError]]:
        """Read units ``[begin, end)`` of a file.

        Returns
        -------
        columns : list of ColumnData
            One per stream; rows that are wrong are blank.
        wrong : dict
            What is wrong with such a row, counted from the first one that was read.
        """

    @property
    def load_threads(self) -> int:
        """Threads that load chunks ahead."""
        return 2 if are_local(self.files) else REMOTE_LOAD_THREADS

    def open(self, ledger: Ledger) -> Corpus:
        """Return the corpus, ready to be planned and read; the index is built if need be."""
        index = self.load_index()
        _list_errors(index, ledger)
        kinds = self.kinds = _common_kinds(index, self.fields)
        infos = [
            describe_stream(name, kinds[name].to_column(), definition)
            for name, definition in self.definitions.items()
        ]
        rows = Rows(
            index,
            {name: _lengths(index, name, kind) for name, kind in kinds.items()},
            size_stream(infos),
            ledger,
            order=self.order,
            chunk_per_unit=self.is_resident,
        )
        loader = _Loader(self, rows, kinds, ledger)
        names = None if self.ids is None else names_of_rows(self, self.ids, rows)
        reader = Reader(
            core=_core.read.CallbackDeserializer(loader.load),
            streams=infos,
            chunk_sequences=rows.chunk_rows,
            measure=rows.measure,
            resident=self.is_resident,
            numbers=rows.numbers,
            sample_bytes=rows.sample_bytes,
            load_threads=self.load_threads,
            holds_stored=True,
        )
        return Corpus(
            [reader],
            ids=rows.ids if names is None else GivenIds(names),
            names=[file.name for file in self.files],
            chunks=rows.chunk_sequences,
            keys=None if names is None else lambda: names,
            index=index.path,
        )

    def load_index(self) -> Index:
        """Return what there is in the files, learnt now or before."""
        definitions = {
            name: [self.fields[name], one.shape, str(one.dtype)]
            for name, one in self.definitions.items()
        }
        meaning = {"format": self.format, "streams": definitions, **self.options}
        return load_index(self.files, meaning, self._scan, check=self._check, keep=self.keep)

    def check_facts(self, file: SourceFile, scan: Scan) -> None:
        """Refuse what a format keeps of its units if it cannot be; see `check_scan`."""

    def _check(self, file: SourceFile, scan: Scan) -> None:
        check_scan(file, scan, self.definitions)
        self.check_facts(file, scan)

    def _scan(self, file: SourceFile, advance: Advance) -> Scan:
        found = self.scan_units(file, advance)
        file.check_unchanged()
        arrays = {
            "rows": np.array(found.rows, np.int64),
            "num_bytes": np.array(found.num_bytes, np.int64),
            "damaged_rows": np.unique(np.array(found.damaged_rows, np.int64)),
        }
        for name in self.definitions:
            parts = [np.empty(0, np.int64), *found.lengths.get(name, [])]
            if any(part.size and part.max() > _MOST_SAMPLES for part in parts):
                raise DataError(
                    f"a sequence has at most {_MOST_SAMPLES} samples",
                    file.path,
                    stream=name,
                    sequence=int(np.concatenate(parts).argmax()),
                )
            arrays[f"lengths of {name}"] = np.concatenate(
                parts, dtype=np.uint32, casting="unsafe"
            )
        facts = {
            "kinds": {n: [k.dtype, k.shape, k.is_ragged] for n, k in found.kinds.items()},
            "errors": [error.args for error in found.errors],
            "format": found.facts,
        }
        return Scan(arrays, facts)


def _lengths(index: Index, name: str, kind: Kind) -> NDArray[np.uint32] | None:
    return index.arrays[f"lengths of {name}"] if kind.is_ragged else None


def _list_errors(index: Index, ledger: Ledger) -> None:
    for file, facts in zip(index.files, index.facts, strict=True):
        for reason, _, *place in facts["errors"]:
            ledger.add(DataError(reason, file.path, *place))


def _common_kinds(index: Index, fields: Mapping[str, str]) -> dict[str, Kind]:
    """Return what each stream is in all files.

    Raises
    ------
    DataError
        If two files differ, or no file has the field.
    """
    found: dict[str, tuple[Kind, str]] = {}
    for file, facts in zip(index.files, index.facts, strict=True):
        for name, (dtype, shape, is_ragged) in facts["kinds"].items():
            kind = Kind(dtype, tuple(shape), is_ragged)
            known, where = found.setdefault(name, (kind, file.path))
            if kind != known:
                raise DataError(
                    f"the field {fields[name]!r} is {kind} here and {known} in {where}; all "
                    "files of a corpus must agree",
                    file.path,
                    stream=name,
                )
    for name, field_name in fields.items():
        if name not in found:
            raise DataError(
                f"no row has the field {field_name!r}", index.files[0].path, stream=name
            )
    return {name: found[name][0] for name in fields}


class _Loader:
    """Loads chunks, and compares them with what the index says."""

    def __init__(
        self,
        deserializer: IndexedDeserializer,
        rows: Rows,
        kinds: Mapping[str, Kind],
        ledger: Ledger,
    ) -> None:
        self._deserializer = deserializer
        self._rows = rows
        self._kinds = kinds
        self._ledger = ledger

    def load(self, chunk: int) -> _core.read.Chunk:
        """Return a chunk; what is found to be damaged only now is skipped within the budget."""
        first, end = self._rows.chunk_units[chunk : chunk + 2].tolist()
        parts: list[list[ColumnData]] = []
        skipped: list[int] = []  # rows
        for begin, stop in self._pieces(first, end):
            self._read_or_skip(begin, stop, parts, skipped)
        columns = [concat_columns(one) for one in zip(*parts, strict=True)]
        first_row = int(self._rows.unit_rows[first])
        return make_chunk(
            columns,
            owned=not self._deserializer.is_resident,
            skipped=[row - first_row for row in skipped],
        )

    def _pieces(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Cut a run of units at the borders of files."""
        starts = self._rows.index.starts["rows"]
        while first < end:
            file = int(np.searchsorted(starts, first, side="right")) - 1
            stop = min(end, int(starts[file + 1]))
            yield first, stop
            first = stop

    def _read_or_skip(
        self, begin: int, end: int, parts: list[list[ColumnData]], skipped: list[int]
    ) -> None:
        """Read units of one file; if that fails each by itself, so that few are lost.

        What the index knows to be damaged is skipped with what turns out to be.
        """
        rows = self._rows.rows_of(begin, end)
        known = (rows.start + np.flatnonzero(~self._rows.is_served[rows])).tolist()
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
                self._ledger.add(error)
                parts.append(self._blank(rows))
                skipped += range(rows.start, rows.stop)
            return
        parts.append(columns)
        skipped += known
        for row, reason in wrong.items():
            if self._rows.is_served[rows.start + row]:  # the index does not know
                self._ledger.add(reason)
                skipped.append(rows.start + row)

    def _read(self, begin: int, end: int) -> tuple[list[ColumnData], dict[int, DataError]]:
        index = self._rows.index
        starts = index.starts["rows"]
        number = int(np.searchsorted(starts, begin, side="right")) - 1
        file, first = index.files[number], int(starts[number])
        columns, wrong = self._deserializer.read_units(
            file, index.facts[number]["format"], begin - first, end - first
        )
        file.check_unchanged()
        rows = self._rows.rows_of(begin, end)
        usable = np.flatnonzero(self._rows.is_served[rows])
        num_rows = rows.stop - rows.start
        checked = []
        for column, (name, kind) in zip(columns, self._kinds.items(), strict=True):
            if kind.is_ragged and len(usable) < num_rows == column.num_sequences:
                column = spread(take(column, usable), usable, num_rows)
            if Kind.of(column) != kind or column.num_sequences != num_rows:
                raise StaleError(f"{_NOT_INDEXED}; delete the index", file.path, stream=name)
            lengths = column.lengths
            for row in np.flatnonzero(lengths != self._rows.lengths_of(name, rows)).tolist():
                found = f"the row has {lengths[row]} samples; {_NOT_INDEXED}"
                at = self._rows.row_in_file(rows.start + row)
                wrong.setdefault(row, StaleError(found, file.path, stream=name, sequence=at))
            checked.append(column)
        return checked, wrong

    def _blank(self, rows: slice) -> list[ColumnData]:
        return [
            blank_column(kind.to_column(), self._rows.lengths_of(name, rows))
            for name, kind in self._kinds.items()
        ]
