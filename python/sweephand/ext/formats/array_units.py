"""Arrays whose first axis is that of the sequences: the common part of HDF5 and Zarr.

::

    units   runs of sequences that begin where a chunk of the largest array does
    place   where an array lies bare in a file, if it does: then it is read in place
    group   label (n, 4) | tokens (samples,) | tokens_offsets (n + 1,) | train/x (n, 28, 28)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, StreamDef, StreamDefs, StreamInfo
from sweephand.extend import (
    ColumnData,
    Columns,
    FileColumn,
    FileList,
    Files,
    Keep,
    KnownRows,
    Ledger,
    RowIds,
    RowRun,
    RowTable,
    RunDeserializer,
    SampleType,
    SourceFile,
    StoredReader,
    StreamsLike,
    check_offsets,
    chunks,
    column_of_bytes,
    offsets_of,
    read_columns,
    some_of,
)

_UNIT_BYTES = 1 << 17
_OFFSETS = "_offsets"

StoredArray = Any
"""An array of h5py or zarr: its shape, dtype and chunks, and slices of its first axis."""

TEXT = SampleType("bytes")
_LARGEST = 8  # bytes of a number
_LOOKED_AT = 64  # rows, to know about how long texts are


class ArrayGroup(ABC):
    """A group that is open: a file of HDF5, a store of Zarr."""

    @abstractmethod
    def paths(self) -> list[str]:
        """Return the paths of all arrays with rows, in an order that does not change."""

    @abstractmethod
    def get(self, path: str) -> StoredArray | None:
        """Return the array at a path, or None; ValueError if it cannot be read."""

    @abstractmethod
    def element(self, array: StoredArray, definition: StreamDef) -> SampleType:
        """Return the type of an element, ragged if it is a run of numbers."""

    def place(self, array: StoredArray) -> int | None:
        """Return the byte where an array of bare numbers begins; None for any other."""
        return None


@dataclass(frozen=True)
class StoredStream:
    """An array that is a stream."""

    array: StoredArray
    rows: SampleType  # what its rows are
    # the row that each sequence begins with, and the end; None: each row is one
    begins: NDArray[np.int64] | None = None

    @property
    def kind(self) -> SampleType:
        """The type of its sequences."""
        return self.rows if self.begins is None else replace(self.rows, is_ragged=True)

    @property
    def num_rows(self) -> int:
        """Rows of the array."""
        return int(self.array.shape[0])

    @property
    def num_sequences(self) -> int:
        """Sequences that the rows are."""
        return self.num_rows if self.begins is None else len(self.begins) - 1

    @property
    def row_bytes(self) -> int:
        """The bytes of a row in memory, about that of rows of any length."""
        if self.rows.dtype == "bytes" or self.rows.is_ragged:
            column = column_of(np.asarray(self.array[:_LOOKED_AT]), self.rows)
            return 8 + column.num_bytes // max(1, column.num_sequences)
        return self.rows.sample_bytes

    def starts(self, least: int) -> NDArray[np.int64]:
        """Return the sequences that begin with a chunk, or with several of `least` bytes."""
        rows = int(self.array.chunks[0]) if self.array.chunks else 1
        chunk_bytes = max(1, rows * self.row_bytes)
        found = np.arange(0, self.num_rows, rows * max(1, -(-least // chunk_bytes)))
        return found if self.begins is None else np.searchsorted(self.begins[:-1], found)


class ArrayUnits(RunDeserializer):
    """Serve arrays of one group, or of several that are alike."""

    is_cast = True

    def __init__(
        self,
        files: Files | FileList,
        streams: StreamsLike | None = None,
        *,
        offsets: Mapping[str, str] | None = None,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        self._offsets = dict(offsets or {})
        super().__init__(files, streams, index=index, ids=ids)
        self.options = {"offsets": self._offsets}

    @abstractmethod
    def open_group(self, file: SourceFile) -> AbstractContextManager[ArrayGroup]:
        """Open a file or a store; whatever its library raises is of damaged bytes."""

    def guess_streams(self) -> StreamDefs:
        """Return the arrays that have as many sequences as the largest array."""
        found: dict[str, StoredStream] = {}
        refused: dict[str, str] = {}
        file = self.first_file
        with self._opened(file) as group:
            paths = group.paths()
            bounds = {self._offsets.get(path, path + _OFFSETS) for path in paths}
            for path in paths:
                if path not in bounds:
                    try:
                        found[path] = self._stream_at(group, path, StreamDef())
                    except ValueError as error:
                        refused[path] = str(error)
            sizes = {path: one.num_rows * one.row_bytes for path, one in found.items()}
        if not found:
            reasons = "; ".join(f"{path!r}: {why}" for path, why in refused.items())
            raise DataError(f"no array can be served: {reasons or 'there is none'}", file.path)
        largest = max(sizes, key=lambda path: sizes[path])
        count = found[largest].num_sequences
        for path, one in found.items():
            if one.num_sequences != count:
                refused[path] = f"has {one.num_sequences} rows, {largest!r} has {count}"
        self.left_out = refused
        return StreamDefs({path: StreamDef() for path in found if path not in refused})

    def find_rows(self, file: SourceFile) -> KnownRows:
        """Look at the arrays, and read those of offsets."""
        with self._opened(file) as group:
            found = {name: self._find(group, name, file) for name in self.definitions}
            borders = self._cut(found, file)
            known = KnownRows(borders, kinds={n: one.kind for n, one in found.items()})
            lengths: dict[str, NDArray[np.int64]] = {}
            places: dict[str, int | None] = {}
            for name, one in found.items():
                samples = np.diff(borders)
                if one.begins is not None:
                    lengths[name] = np.diff(one.begins)
                    samples = np.diff(one.begins[borders])
                known.run_bytes = known.run_bytes + samples * one.row_bytes
                places[name] = _place(group, one, file)
            known.lengths, known.facts = lengths, {"places": places}
        return known

    def read_rows(self, run: RowRun) -> Columns:
        """Read sequences of one group."""
        columns = []
        with self._opened(run.file) as group:
            for name in run.streams:
                with self._located(run.file, name):
                    columns.append(self._read(group, name, run))
        return columns, {}

    def make_reader(
        self, rows: RowTable, infos: Sequence[StreamInfo], ledger: Ledger
    ) -> StoredReader:
        """Return a reader of arrays in place, if all are stored bare; else of units."""
        columns = [_in_place(rows, name, kind) for name, kind in self.kinds.items()]
        bare = [one for one in columns if one is not None]
        if len(bare) < len(columns):
            return super().make_reader(rows, infos, ledger)
        return read_columns(
            bare,
            infos,
            rows.chunk_rows,
            rows.sample_bytes,
            skipped=None if rows.are_all_served else np.flatnonzero(~rows.is_served),
        )

    @contextmanager
    def _opened(self, file: SourceFile) -> Iterator[ArrayGroup]:
        with self._located(file), self.open_group(file) as group:
            yield group

    @contextmanager
    def _located(self, file: SourceFile, stream: str | None = None) -> Iterator[None]:
        """Raise a library's errors on damaged bytes as DataError."""
        try:
            yield
        except (DataError, ConnectionError, TimeoutError):
            raise
        except Exception as error:  # of a dozen kinds
            if isinstance(error, OSError) and error.errno is not None:
                raise
            file.check_unchanged()
            reason = f"it cannot be read: {error}"
            raise DataError(reason, file.path, stream=stream) from error

    def _find(self, group: ArrayGroup, name: str, file: SourceFile) -> StoredStream:
        """Return the array that a stream is."""
        path = self.fields[name]
        try:
            return self._stream_at(group, path, self.definitions[name])
        except ValueError as error:
            reason = f"the array {path!r} cannot be served: {error}"
            raise DataError(reason, file.path, stream=name) from error

    def _stream_at(self, group: ArrayGroup, path: str, definition: StreamDef) -> StoredStream:
        """Return an array as a stream; ValueError if it cannot be one."""
        array = _array_at(group, path)
        rows = kind_of(array, group.element(array, definition))
        bounds = self._bounds_at(group, path)
        if bounds is None:
            return StoredStream(array, rows)
        begins = np.asarray(bounds[:])
        if begins.ndim != 1 or begins.dtype.kind not in "iu" or not len(begins):
            raise ValueError("its offsets must be one row of integers, each begin and the end")
        if rows.is_ragged:
            raise ValueError("rows of any length cannot be cut by offsets")
        begins = np.ascontiguousarray(begins, np.int64)
        try:
            check_offsets(begins, int(array.shape[0]))
        except ValueError as error:
            raise ValueError(f"its offsets do not fit it: {error}") from None
        return StoredStream(array, rows, begins)

    def _bounds_at(self, group: ArrayGroup, path: str) -> StoredArray:
        """Return the offsets of an array, or None."""
        if path in self._offsets:
            return _array_at(group, self._offsets[path])
        return group.get(path + _OFFSETS)

    def _cut(self, found: Mapping[str, StoredStream], file: SourceFile) -> NDArray[np.int64]:
        """Return the first sequence of every unit, and the end."""
        counts = {self.fields[name]: one.num_sequences for name, one in found.items()}
        if len(set(counts.values())) > 1:
            counted = some_of([f"{path} {count}" for path, count in counts.items()])
            raise DataError(
                f"the arrays differ in their number of sequences: {counted}; name those that "
                "belong together, or the offsets of those that have several rows in one",
                file.path,
            )
        (count,) = set(counts.values())
        largest = max(found.values(), key=lambda one: one.num_rows * one.row_bytes)
        starts = largest.starts(min(_UNIT_BYTES, chunks.CHUNK_BYTES))
        return np.unique(np.concatenate([[0], starts, [count]])).astype(np.int64)

    def _read(self, group: ArrayGroup, name: str, run: RowRun) -> ColumnData:
        """Return sequences of a stream."""
        first, stop = run.begin, run.end
        path = self.fields[name]
        array = _array_at(group, path)
        rows = kind_of(array, group.element(array, self.definitions[name]))
        if rows.is_ragged or not run.kinds[name].is_ragged:
            return column_of(np.asarray(array[first:stop]), rows)
        begins = np.asarray(self._bounds_at(group, path)[first : stop + 1], np.int64)
        column = column_of(np.asarray(array[int(begins[0]) : int(begins[-1])]), rows)
        if column.num_samples != begins[-1] - begins[0]:
            raise ValueError(f"the array {path!r} ends before its offsets do")
        return replace(column, sample_offsets=begins - begins[0])


def _array_at(group: ArrayGroup, path: str) -> StoredArray:
    if (found := group.get(path)) is None:
        raise ValueError(f"{path!r} is not there, there are: {some_of(group.paths(), 20)}")
    return found


def _place(group: ArrayGroup, one: StoredStream, file: SourceFile) -> int | None:
    """Return the place of a stream stored bare; None if it is stored otherwise."""
    is_plain = one.rows.dtype != "bytes" and not one.rows.is_ragged
    if not is_plain or not one.array.dtype.isnative:
        return None
    place = group.place(one.array)
    if place is not None and place > file.size - one.num_rows * one.rows.sample_bytes:
        raise DataError("an array lies beyond the end of the file", file.path)
    return place


def _in_place(rows: RowTable, name: str, kind: SampleType) -> FileColumn | None:
    """Return a stream as stored in the files; None if it is not stored as it is served."""
    index = rows.index
    lengths = index.arrays[f"lengths of {name}"]
    row_files = rows.files_of_rows()
    num_files = len(index.files)
    counts = np.bincount(row_files, lengths if kind.is_ragged else None, num_files)
    sizes = counts.astype(np.int64) * kind.sample_bytes
    pieces = []
    for number, facts in enumerate(index.facts):
        place = facts["format"].get("places", {}).get(name)
        own = facts["kinds"].get(name)
        if place is None or own is None or SampleType.from_fact(own) != kind:
            return None  # also files of several types, that are read as a declared one
        pieces.append((number, place, int(sizes[number])))
    column = replace(
        kind.to_column(),
        values=None,
        num_samples=int(counts.sum()),
        sample_offsets=offsets_of(lengths) if kind.is_ragged else None,
    )
    return FileColumn(column, index.files, np.array(pieces, np.uint64))


def element_of(dtype: np.dtype[Any]) -> SampleType:
    """Return the type of an element: a number in native order, or a text of fixed width."""
    if dtype.kind in "SUT":
        return TEXT
    if dtype.kind not in "biuf" or dtype.itemsize > _LARGEST:
        name = "records" if dtype.names else str(dtype)
        raise ValueError(f"it holds {name:.80}, neither numbers nor texts")
    return SampleType(dtype.newbyteorder("=").name)


def kind_of(array: StoredArray, element: SampleType) -> SampleType:
    """Return the sample type of an array whose rows are sequences."""
    shape = tuple(map(int, array.shape))
    if not shape or 0 in shape[1:]:
        raise ValueError(f"it has no rows with elements: it is of shape {shape}")
    if len(shape) > 1 and (element.dtype == "bytes" or element.is_ragged):
        raise ValueError(f"it has several texts or runs of numbers in a row: shape {shape}")
    return replace(element, shape=shape[1:])


def column_of(values: NDArray[Any], kind: SampleType) -> ColumnData:
    """Return rows that were read, each a sequence."""
    if kind.dtype == "bytes":
        return column_of_bytes([_to_bytes(one) for one in values.tolist()])
    dtype = np.dtype(kind.dtype)
    sample_offsets = None
    if values.dtype.hasobject:
        rows = [np.asarray(one) for one in values.tolist()]
        values = np.concatenate([np.empty(0, dtype), *rows])
        sample_offsets = offsets_of([len(one) for one in rows])
    if values.shape[1:] != kind.shape or values.dtype.newbyteorder("=") != dtype:
        raise ValueError(f"it has rows of {values.dtype} of shape {values.shape[1:]}")
    values = np.ascontiguousarray(values, dtype)
    return ColumnData(values, dtype, kind.shape, len(values), sample_offsets)


def _to_bytes(one: object) -> bytes:
    if isinstance(one, str):
        return one.encode(errors="surrogateescape")
    if isinstance(one, bytes):
        return one
    if isinstance(one, np.ndarray) and one.dtype.kind in "biu" and one.itemsize == 1:
        return one.tobytes()
    raise ValueError(f"it holds {type(one).__name__}, where a text is due")
