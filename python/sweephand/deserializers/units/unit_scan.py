"""The scan of a file that is read in units, its entry in an index, and the rows of all files.

::

    files   | a.parquet          | b.parquet | c.parquet    |
    units   | unit | unit | unit | unit      | unit | unit  |   what can be read by itself
    chunks  | chunk       | chunk            | chunk | chunk |   some MB of units each
    rows    one sequence each; the damaged ones keep their places, and are skipped
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from itertools import pairwise
from struct import error as StructError
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus import chunks
from sweephand.corpus.columns import ColumnData, offsets_of
from sweephand.corpus.ids import SequenceIds, ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sizes import Sizing, chunks_between
from sweephand.errors import DataError, some_of
from sweephand.files.index_file import Index, Scan
from sweephand.files.source_file import SourceFile, empty_corpus

# A ValueError or TypeError may also be of a wrong call, an OSError of the system.
_OF_DATA = (
    ArithmeticError,
    AssertionError,
    EOFError,
    LookupError,
    NotImplementedError,
    RecursionError,
    StructError,
    UnicodeError,
)

_OF_NAMES = errno.ENAMETOOLONG, errno.ENOTDIR  # as no file can have


_MOST_ERRORS = 10_000
_PART_BYTES = 1 << 17
_MAX_NAMED = 20  # fields in a message
_MOST_SAMPLES = 2**32 - 1

Columns = tuple[list[ColumnData], dict[int, DataError]]
"""A column for each stream, and the errors of rows, which are blank, by their numbers."""


Facts = Mapping[str, Any]
"""Facts of a file that an index keeps beside arrays, as JSON."""


@contextmanager
def guarded(path: str) -> Iterator[None]:
    """Raise what escapes the reading of a file as DataError, with the file."""
    try:
        yield
    except DataError:
        raise
    except MemoryError as error:
        reason = f"it takes more memory than there is: {error}".removesuffix(": ")
        raise DataError(reason, path) from error
    except Exception as error:
        is_of_arrow = type(error).__module__.startswith("pyarrow")
        is_name = isinstance(error, OSError) and error.errno in _OF_NAMES
        if not (is_of_arrow or is_name or isinstance(error, _OF_DATA)):
            raise
        reason = f"it cannot be read: {type(error).__name__}: {error}"
        raise DataError(reason, path) from error


@dataclass(frozen=True)
class SampleType:
    """Type of the samples of a stream: numbers of a dtype and shape, bytes, or objects."""

    dtype: str
    shape: tuple[int, ...] = ()
    is_ragged: bool = False
    is_sparse: bool = False

    @classmethod
    def of(cls, column: ColumnData) -> Self:
        """Return the kind of a column."""
        dtype = "bytes" if column.is_bytes else column.dtype.name
        if column.holds_objects:
            dtype = "objects"
        is_ragged = column.sample_offsets is not None
        return cls(dtype, column.shape, is_ragged, column.is_sparse)

    @property
    def are_bytes(self) -> bool:
        """True if samples are byte strings, or objects that are stored as such."""
        return self.dtype in ("bytes", "objects")

    @property
    def sample_bytes(self) -> int:
        """The bytes of a sample of numbers."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def to_column(self) -> ColumnData:
        """Return a column of this kind without sequences."""
        offsets = np.zeros(1, np.int64)
        dtype = np.dtype(np.uint8 if self.are_bytes else self.dtype)
        return ColumnData(
            values=np.empty((0, *self.shape), dtype),
            dtype=dtype,
            shape=self.shape,
            num_samples=0,
            sample_offsets=offsets if self.is_ragged else None,
            element_offsets=offsets if self.is_sparse or self.are_bytes else None,
            indices=np.empty(0, np.int32) if self.is_sparse else None,
            holds_objects=self.dtype == "objects",
        )

    def is_like(self, other: Self) -> bool:
        """Return True for numbers that differ in their dtype alone, if at all."""
        are_numbers = not (self.are_bytes or other.are_bytes)
        return are_numbers and replace(other, dtype=self.dtype) == self

    @classmethod
    def from_fact(cls, fact: Sequence[Any]) -> Self:
        """Read the JSON of a tuple of all."""
        dtype, shape, *flags = fact
        return cls(dtype, tuple(shape), *flags)

    def __str__(self) -> str:
        shape = f" of shape {self.shape}" if self.shape else ""
        sparse = "sparse " if self.is_sparse else ""
        return f"{'lists of ' if self.is_ragged else ''}{sparse}{self.dtype}{shape}"


@dataclass
class UnitScan:
    """Result of the scan of one file."""

    kinds: dict[str, SampleType] = field(default_factory=dict)  # none of which it says nothing
    rows: list[int] = field(default_factory=list)  # of each unit
    num_bytes: list[int] = field(default_factory=list)  # of the columns of each unit in memory
    # the samples of each row per ragged stream, in one or several pieces
    lengths: dict[str, list[NDArray[np.integer]]] = field(default_factory=dict)
    damaged_rows: list[int] = field(default_factory=list)  # that cannot be served
    errors: list[DataError] = field(default_factory=list)  # why not, and what else is damaged
    is_cut: bool = False  # rows are lost, and nobody knows how many
    facts: dict[str, Any] = field(default_factory=dict)  # what it takes to read them, as JSON
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)  # and as arrays

    def add_error(self, error: DataError, rows: Iterable[int] | None = None) -> None:
        """List a damaged item, and the rows that are lost; None: the rest, however many."""
        if len(self.errors) == _MOST_ERRORS:
            error.add_note(f"{_MOST_ERRORS} items before it are damaged; no more are listed")
            raise error
        self.errors.append(error)
        self.is_cut |= rows is None
        self.damaged_rows += rows or ()

    def add_faults(self, faults: Mapping[int, DataError], first: int = 0) -> None:
        """Add errors of rows, which are counted from the first row here."""
        for row, error in sorted(faults.items()):
            self.add_error(error, [first + row])

    def add_unit(self, columns: Mapping[str, ColumnData]) -> None:
        """Add a unit of which each stream is known as a column."""
        for name, column in columns.items():
            if column.sample_offsets is not None:
                self.lengths.setdefault(name, []).append(column.lengths)
        self.rows.append(next(iter(columns.values())).num_sequences)
        self.num_bytes.append(sum(column.num_bytes for column in columns.values()))

    def to_scan(self, file: SourceFile, streams: Iterable[str]) -> Scan:
        """Return the facts that an index keeps of the file."""
        arrays = {
            "rows": np.array(self.rows, np.int64),
            "num_bytes": np.array(self.num_bytes, np.int64),
            "damaged_rows": np.array(sorted(set(self.damaged_rows)), np.int64),
            **self.arrays,
        }
        for name in streams:
            parts = [np.empty(0, np.int64), *self.lengths.get(name, [])]
            lengths = np.concatenate(parts, dtype=np.int64, casting="unsafe")
            if len(parts) > 1 and len(lengths) != sum(self.rows):
                reason = f"there are {len(lengths)} rows, not {sum(self.rows)} as of others"
                raise DataError(reason, file.path, stream=name)
            # What is beyond int64 became negative.
            for row in np.flatnonzero((lengths < 0) | (lengths > _MOST_SAMPLES))[:1].tolist():
                reason = f"the sequence must have at most {_MOST_SAMPLES} samples"
                raise DataError(reason, file.path, stream=name, sequence=row)
            arrays[f"lengths of {name}"] = lengths.astype(np.uint32)
        facts = {
            "kinds": {name: astuple(kind) for name, kind in self.kinds.items()},
            "errors": [error.args for error in self.errors],
            "is_cut": self.is_cut,
            "format": self.facts,
        }
        return Scan(arrays, facts)


def known_fields(guess: Callable[[], Iterable[str]]) -> str:
    """Return the list of known fields, as the end of a message."""
    try:
        return f", there are: {some_of(list(guess()), _MAX_NAMED)}"
    except DataError:  # the first file has none
        return ""


def common_types(
    index: Index,
    fields: Mapping[str, str],
    guess: Callable[[], Iterable[str]],
    declared: Mapping[str, np.dtype[Any]] = MappingProxyType({}),
) -> dict[str, SampleType]:
    """Return the type of each stream in all files."""
    found: dict[str, tuple[SampleType, str]] = {}
    last: Any = None
    for file, facts in zip(index.files, index.facts, strict=True):
        if facts["kinds"] == last:  # most files are alike
            continue
        last = facts["kinds"]
        for name, fact in last.items():
            kind = SampleType.from_fact(fact)
            known, where = found.setdefault(name, (kind, file.path))
            if kind != known:
                if name in declared and kind.is_like(known):
                    found[name] = replace(kind, dtype=declared[name].name), where
                    continue
                raise DataError(
                    f"the field {fields[name]!r} is {kind} here and {known} in {where}; all "
                    "files of a corpus must agree",
                    file.path,
                    stream=name,
                )
    for name, field_name in fields.items():
        if name not in found:
            for number, (file, facts) in enumerate(zip(index.files, index.facts, strict=True)):
                arrays = index.scan(number).arrays
                if facts["errors"] and len(arrays["damaged_rows"]) == arrays["rows"].sum():
                    # No row of the file is whole, so that it says nothing of its fields.
                    reason, _, *place = facts["errors"][0]
                    raise DataError(reason, file.path, *place)
            reason = f"no row has the field {field_name!r}{known_fields(guess)}"
            raise DataError(reason, index.files[0].path, stream=name)
    return {name: found[name][0] for name in fields}


RowIds = str | Sequence[str] | Sequence[int] | NDArray[np.generic]


class RowTable:
    """The rows of a corpus: their lengths, and the chunk of each."""

    def __init__(
        self,
        index: Index,
        lengths: Mapping[str, NDArray[np.uint32] | None],  # in samples; None: one each
        sizing: Sequence[str],  # the streams whose longest is the size
        ledger: Ledger,
        *,
        order: NDArray[np.int64] | None = None,
        chunk_per_unit: bool = False,
        in_parts: bool = False,
        chunk_bytes: int | None = None,
    ) -> None:
        num_bytes = index.arrays["num_bytes"]
        self.index = index
        # the first row of every unit, and the end
        self.unit_rows = offsets_of(index.arrays["rows"])
        chunk_units = np.arange(len(num_bytes) + 1)
        if not chunk_per_unit:
            chunk_units = cut_units(num_bytes, chunk_bytes or chunks.CHUNK_BYTES)
        self.chunk_rows = chunks_between(self.unit_rows[chunk_units])
        # The first unit of all that is loaded at a time, and the end: of a chunk or a part.
        self.load_units = chunk_units
        self.parts: _core.index.Starts | None = None
        if in_parts:
            self.load_units = np.union1d(chunk_units, cut_units(num_bytes, _PART_BYTES))
            self.parts = chunks_between(self.unit_rows[self.load_units])
        self._num_rows = int(self.unit_rows[-1])
        self._file_rows = self.unit_rows[index.starts["rows"]]
        self.lengths = dict(lengths)
        # False for rows that are damaged or empty: one sample each, and skipped.
        self.is_served = np.ones(self._num_rows, np.bool_)
        damaged = np.diff(index.starts["damaged_rows"])
        firsts = np.repeat(self._file_rows[:-1], damaged)
        self.is_served[firsts + index.arrays["damaged_rows"]] = False
        self._sizing = sizing
        self._leave_out_empty(ledger)
        self.are_all_served = bool(self.is_served.all())
        if not self.is_served.any():
            raise empty_corpus([file.path for file in index.files])
        if not self.are_all_served:
            self.lengths = {
                name: None if own is None else np.where(self.is_served, own, np.uint32(0))
                for name, own in lengths.items()
            }
        names = [file.name for file in index.files]
        self.numbers: NDArray[np.uint64] | None = None  # the order as the core takes it
        self.chunks = self.chunk_rows  # of the sequences of the corpus, in their order
        self.ids: SequenceIds = ShardIds(names, self._file_rows.tolist())
        if order is not None:
            self.ids = ShardIds(names[:1], [0, len(order)])
            size = -(-len(order) // len(self.chunk_rows))
            self.chunks = _core.index.Starts.even(len(order), size)
            self.numbers = order.astype(np.uint64)

    def measure(self) -> Sizing:
        """Return the sizes of all rows."""
        sizes = self._sizes(self._sizing)
        if sizes is None:
            return Sizing.one_each(self.chunk_rows)
        return Sizing.of(np.where(self.is_served, sizes, np.uint32(1)), self.chunk_rows)

    @property
    def sample_bytes(self) -> float:
        """Mean bytes of a row for one sample of the longest stream."""
        sizes = self._sizes(list(self.lengths))
        num_samples = self._num_rows
        if sizes is not None:
            num_samples = int(sizes.sum(dtype=np.int64, where=self.is_served))
            num_samples += int(np.count_nonzero(~self.is_served))
        return int(self.index.arrays["num_bytes"].sum()) / max(1, num_samples)

    def rows_of(self, begin: int, end: int) -> slice:
        """Return the rows of units ``[begin, end)``."""
        return slice(int(self.unit_rows[begin]), int(self.unit_rows[end]))

    def lengths_of(self, stream: str, rows: slice) -> NDArray[np.uint32]:
        """Return the number of samples of each row; 0 for ragged rows that are not served."""
        lengths = self.lengths[stream]
        return np.ones(rows.stop - rows.start, np.uint32) if lengths is None else lengths[rows]

    def is_single(self, stream: str) -> bool:
        """Return True if every row that is served has exactly one sample of a stream."""
        lengths = self.lengths[stream]
        return lengths is None or bool((lengths == self.is_served).all())

    def place_of(self, row: int) -> tuple[SourceFile, int]:
        """Return the file of a row, and its number among the rows there."""
        file = int(np.searchsorted(self._file_rows, row, side="right")) - 1
        return self.index.files[file], row - int(self._file_rows[file])

    def files_of_rows(self) -> NDArray[np.int64]:
        """Return the number of each row's file."""
        return np.repeat(np.arange(len(self._file_rows) - 1), np.diff(self._file_rows))

    def _sizes(self, streams: Sequence[str]) -> NDArray[np.uint32] | None:
        """Return the samples of all rows, 0 of those that are damaged; None: one each."""
        known = [own for name in streams if (own := self.lengths[name]) is not None]
        if not known:
            return None
        sizes: NDArray[np.uint32] = known[0] if len(known) == 1 else np.maximum.reduce(known)
        return sizes if len(known) == len(streams) else np.maximum(sizes, 1)

    def _leave_out_empty(self, ledger: Ledger) -> None:
        sizes = self._sizes(self._sizing)
        if sizes is None:
            return
        empty = np.flatnonzero((sizes == 0) & self.is_served)
        where = "any stream"
        if len(self._sizing) == 1:
            where = f"stream {self._sizing[0]!r}, which defines its size"
        for row in empty.tolist():
            file, place = self.place_of(row)
            reason = f"the sequence has no sample in {where}"
            ledger.add(DataError(reason, file.path, sequence=place))
        self.is_served[empty] = False


def cut_units(num_bytes: NDArray[np.integer], least: int) -> NDArray[np.int64]:
    """Return the first of each run of units or rows that fills so many bytes, and the end.

    It depends on nothing but their sizes, as the order does.
    """
    begins = offsets_of(num_bytes)[:-1]
    return np.append(np.flatnonzero(np.diff(begins // least, prepend=-1)), len(num_bytes))


def read_ids(rows: RowTable, field: str, own: RowTable, reader: StoredReader) -> list[str]:
    """Return the id of every row, by a reader of the field that has them."""
    names: list[str] = []
    core = reader.in_window().core
    for part in range(len(reader.loads)):
        ((values, sample_offsets, ends, _),) = core.load(part)
        if ends is not None:
            content = values.tobytes()
            texts = (content[begin:end] for begin, end in pairwise(ends.tolist()))
            found = [text.decode(errors="surrogateescape") for text in texts]
        else:
            found = list(map(str, values.tolist() if values.dtype.kind in "iu" else ()))
        if sample_offsets is None:
            sample_offsets = np.arange(len(values) + 1 if ends is None else len(ends))
        for begin, end in pairwise(sample_offsets.tolist()):
            row = len(names)
            file, place = rows.place_of(row)
            if not rows.is_served[row]:  # a damaged one, whatever is left of it
                names.append(f"{file.name}__{place}")
            elif own.is_served[row] and end - begin == 1 and found:
                names.append(found[begin])
            else:
                raise DataError(
                    f"a row has one integer or text in {field!r}, the field of its id",
                    file.path,
                    stream=field,
                    sequence=place,
                )
    return names
