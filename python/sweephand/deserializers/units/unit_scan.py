"""The scan of a file that is read in units, and its entry in an index."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from struct import error as StructError
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import ColumnData
from sweephand.corpus.ledger import Ledger
from sweephand.errors import DataError
from sweephand.files.index_file import Index, Scan
from sweephand.files.source_file import SourceFile

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

    def to_fact(self) -> list[Any]:
        """Return it as JSON; sparseness is mentioned only where it is true."""
        fact: list[Any] = [self.dtype, self.shape, self.is_ragged]
        return [*fact, True] if self.is_sparse else fact

    @classmethod
    def from_fact(cls, fact: Sequence[Any]) -> Self:
        """Read the JSON of `to_fact`."""
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
            counted = sum(map(len, parts))
            if self.lengths.get(name) and counted != sum(self.rows):
                raise DataError(
                    f"there are {counted} rows, not {sum(self.rows)} as of others",
                    file.path,
                    stream=name,
                )
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
            "kinds": {name: kind.to_fact() for name, kind in self.kinds.items()},
            "errors": [error.args for error in self.errors],
            "is_cut": self.is_cut,
            "format": self.facts,
        }
        return Scan(arrays, facts)


def known_fields(guess: Callable[[], Iterable[str]]) -> str:
    """Return the list of known fields, as the end of a message."""
    try:
        names = list(guess())
    except DataError:  # the first file has none
        return ""
    listed = ", ".join(names[:_MAX_NAMED])
    return f", there are: {listed}{', ...' if len(names) > _MAX_NAMED else ''}"


def list_errors(index: Index, ledger: Ledger) -> None:
    """Count the damaged items of the files."""
    for file, facts in zip(index.files, index.facts, strict=True):
        for reason, _, *place in facts["errors"]:
            ledger.add(DataError(reason, file.path, *place))


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
            _raise_of_unread(index)
            reason = f"no row has the field {field_name!r}{known_fields(guess)}"
            raise DataError(reason, index.files[0].path, stream=name)
    return {name: found[name][0] for name in fields}


def _raise_of_unread(index: Index) -> None:
    """Raise the error of a file of which no row is whole: it says nothing of its fields."""
    for number, (file, facts) in enumerate(zip(index.files, index.facts, strict=True)):
        scan = index.scan(number)
        if facts["errors"] and len(scan.arrays["damaged_rows"]) == scan.arrays["rows"].sum():
            reason, _, *place = facts["errors"][0]
            raise DataError(reason, file.path, *place)
