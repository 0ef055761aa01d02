"""Arrays whose first axis is that of the sequences: the common part of HDF5 and Zarr.

::

    units   runs of sequences that begin where a chunk of the largest array does
    pieces  where an array lies bare in a file, if it does: then it is read in place
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, StreamDef, StreamDefs, StreamInfo
from sweephand.ext.formats.array_elements import column_of, kind_of, row_bytes
from sweephand.ext.formats.array_group import (
    ArrayGroup,
    Offsets,
    Places,
    StoredStream,
    find_stream,
    find_streams,
    offsets_path,
)
from sweephand.extend import (
    Advance,
    ColumnData,
    Columns,
    Facts,
    FileColumn,
    FileList,
    Files,
    Index,
    IndexedDeserializer,
    Keep,
    Ledger,
    RowIds,
    RowTable,
    SampleType,
    SourceFile,
    StoredReader,
    StreamsLike,
    UnitScan,
    check_places,
    chunks,
    offsets_of,
    read_columns,
    require,
    spread,
)

_UNIT_BYTES = 1 << 17


class ArrayUnits(IndexedDeserializer):
    """Serve arrays of one group, or of several that are alike."""

    def __init__(
        self,
        files: Files | FileList,
        streams: StreamsLike | None = None,
        *,
        offsets: Offsets | None = None,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        if not (offsets is None or isinstance(offsets, str | Mapping)):
            raise TypeError(
                "offsets is the name of an array, or a dict from the name of an array to that "
                f"of its offsets, got {type(offsets).__name__}"
            )
        self._offsets = dict(offsets) if isinstance(offsets, Mapping) else offsets
        super().__init__(files, streams, index=index, ids=ids)
        self.options = {"offsets": self._offsets}

    is_cast = True

    @abstractmethod
    def open_group(self, file: SourceFile) -> AbstractContextManager[ArrayGroup]:
        """Open a file or a store; whatever its library raises is of damaged bytes."""

    def guess_streams(self) -> StreamDefs:
        """Return the arrays that have as many sequences as the largest array."""
        file = self.first_file
        with self._opened(file) as group:
            found, self.left_out = find_streams(group, self._offsets)
        if not found:
            reasons = "; ".join(f"{path!r}: {why}" for path, why in self.left_out.items())
            raise DataError(f"no array can be served: {reasons or 'there is none'}", file.path)
        return StreamDefs({path: StreamDef() for path in found})

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Look at the arrays; read those of offsets and of rows of any length."""
        scan = UnitScan()
        with self._opened(file) as group:
            found = {name: self._find(group, name, file) for name in self.definitions}
            starts = self._cut(found, file)
            num_bytes = np.zeros(len(starts) - 1, np.int64)
            for name, one in found.items():
                scan.kinds[name] = one.kind
                width = row_bytes(one.array, one.rows)
                samples = np.diff(starts)
                lengths = None if one.begins is None else np.diff(one.begins)
                if one.rows.is_ragged:
                    lengths = _measure(scan, name, one, starts, file)
                    width = one.rows.sample_bytes
                if lengths is not None:
                    scan.lengths[name] = [lengths]
                    samples = np.diff(offsets_of(lengths)[starts])
                num_bytes += samples * width
                places = _places(group, one, file)
                scan.arrays[f"begins of {name}"] = places[:, 0]
                scan.arrays[f"sizes of {name}"] = places[:, 1]
        scan.rows, scan.num_bytes = np.diff(starts).tolist(), num_bytes.tolist()
        scan.facts["starts"] = starts.tolist()
        advance(file.size)
        return scan

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Read sequences of one group."""
        first, stop = facts["starts"][begin], facts["starts"][end]
        with self._opened(file) as group:
            return [self._read(group, name, first, stop) for name in self.definitions], {}

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

    def check_facts(self, index: Index) -> None:
        """Refuse units and places that cannot be."""
        sizes = np.array([file.size for file in index.files], np.int64)
        rows = index.arrays["rows"]
        for number, facts in enumerate(index.facts):
            own = rows[slice(*index.starts["rows"][number : number + 2])]
            require(facts["format"]["starts"] == offsets_of(own).tolist(), "units")
        for name in self.definitions:
            own = check_places(index, name, sizes, index.starts[f"begins of {name}"])
            require(bool((own > 0).all()), "pieces of no bytes")

    @contextmanager
    def _opened(self, file: SourceFile) -> Iterator[ArrayGroup]:
        """Open a group; its library's errors on damaged bytes become DataError."""
        try:
            with self.open_group(file) as group:
                yield group
        except (DataError, ConnectionError, TimeoutError):
            raise
        except Exception as error:  # damaged bytes make libraries raise a dozen kinds
            if isinstance(error, OSError) and error.errno is not None:
                raise
            file.check_unchanged()
            raise DataError(f"it cannot be read: {error}", file.path) from error

    def _find(self, group: ArrayGroup, name: str, file: SourceFile) -> StoredStream:
        """Return the array that a stream is."""
        path = self.fields[name]
        try:
            return find_stream(group, path, self.definitions[name], self._offsets)
        except LookupError as error:
            raise DataError(str(error), file.path, stream=name) from error
        except ValueError as error:
            reason = f"the array {path!r} cannot be served: {error}"
            raise DataError(reason, file.path, stream=name) from error

    def _cut(self, found: Mapping[str, StoredStream], file: SourceFile) -> NDArray[np.int64]:
        """Return the first sequence of every unit, and the end."""
        counts = {self.fields[name]: one.num_sequences for name, one in found.items()}
        if len(set(counts.values())) > 1:
            counted = ", ".join(f"{path} {count}" for path, count in counts.items())
            raise DataError(
                f"the arrays differ in their number of sequences: {counted:.400}; name those "
                "that belong together, or the offsets of those that have several rows in one",
                file.path,
            )
        (count,) = set(counts.values())
        largest = max(
            found.values(), key=lambda one: one.num_rows * row_bytes(one.array, one.rows)
        )
        starts = largest.starts(min(_UNIT_BYTES, chunks.CHUNK_BYTES))
        return np.unique(np.concatenate([[0], starts, [count]])).astype(np.int64)

    def _read(self, group: ArrayGroup, name: str, first: int, stop: int) -> ColumnData:
        """Return sequences ``[first, stop)`` of a stream."""
        path = self.fields[name]
        array = group.array(path)
        rows = kind_of(array, group.element(array, self.definitions[name]))
        if rows.is_ragged == self.kinds[name].is_ragged:
            return column_of(np.asarray(array[first:stop]), rows)
        bounds = group.array(offsets_path(group, path, self._offsets) or "")
        begins = np.asarray(bounds[first : stop + 1], np.int64)
        column = column_of(np.asarray(array[int(begins[0]) : int(begins[-1])]), rows)
        if column.num_samples != begins[-1] - begins[0]:
            raise ValueError(f"the array {path!r} ends before its offsets do")
        return replace(column, sample_offsets=begins - begins[0])


def _measure(
    scan: UnitScan,
    name: str,
    one: StoredStream,
    starts: NDArray[np.int64],
    file: SourceFile,
) -> NDArray[np.int64]:
    """Return how long rows of any length are; those that cannot be read are damaged."""
    lengths = [np.empty(0, np.int64)]
    for begin, end in pairwise(starts.tolist()):
        try:
            lengths.append(column_of(np.asarray(one.array[begin:end]), one.rows).lengths)
        except (OSError, RuntimeError, ValueError) as error:
            reason = f"rows {begin} to {end - 1} cannot be read: {error}"
            scan.add_error(DataError(reason, file.path, stream=name), range(begin, end))
            lengths.append(np.zeros(end - begin, np.int64))
    return np.concatenate(lengths)


def _places(group: ArrayGroup, one: StoredStream, file: SourceFile) -> Places:
    """Return the places of a stream stored bare; nothing if it is stored otherwise."""
    nothing = np.empty((0, 2), np.int64)
    is_plain = one.rows.dtype != "bytes" and not one.rows.is_ragged
    if not is_plain or not one.array.dtype.isnative:
        return nothing
    found = group.places(one.array)
    if found is None or found.sum(axis=0)[1] != one.num_rows * one.rows.sample_bytes:
        return nothing
    if bool((found[:, 0] > file.size - found[:, 1]).any()):
        raise DataError("an array lies beyond the end of the file", file.path)
    return found


def _in_place(rows: RowTable, name: str, kind: SampleType) -> FileColumn | None:
    """Return a stream as stored in the files; None if it is not stored as it is served."""
    index = rows.index
    facts = [one["kinds"].get(name) for one in index.facts]
    if any(fact is not None and SampleType.from_fact(fact) != kind for fact in facts):
        return None  # files of several types, that are read as a declared one
    lengths = index.arrays[f"lengths of {name}"]
    sizes = index.arrays[f"sizes of {name}"]
    count = int(lengths.sum(dtype=np.int64)) if kind.is_ragged else int(rows.unit_rows[-1])
    if kind.dtype == "bytes" or int(sizes.sum()) != count * kind.sample_bytes:
        return None
    numbers = spread(np.arange(len(index.files)), index.starts[f"sizes of {name}"])
    pieces = np.stack([numbers, index.arrays[f"begins of {name}"], sizes], axis=1)
    column = replace(
        kind.to_column(),
        values=None,
        num_samples=count,
        sample_offsets=offsets_of(lengths) if kind.is_ragged else None,
    )
    return FileColumn(column, index.files, pieces.astype(np.uint64))
