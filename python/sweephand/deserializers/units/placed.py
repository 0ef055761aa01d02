"""Rows of bare values at known places in files, with other bytes between them.

Here they are read in place, row by row; from a store by few requests for every chunk. What is
small and had to be parsed for the index is held there: it costs no reading.

::

    file    | ... | values of a row | ... | values of a row | ...
    index     begins, sizes: of every row, of each stream that is placed
              values: of all rows, of each stream that is held
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus import chunks
from sweephand.corpus.columns import ColumnData, offsets_of, take
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.streams import StreamInfo
from sweephand.deserializers.units.file_columns import bare_reader
from sweephand.deserializers.units.indexed import IndexedDeserializer
from sweephand.deserializers.units.row_table import RowTable
from sweephand.deserializers.units.unit_scan import SampleType, UnitScan
from sweephand.files.access import access_to
from sweephand.files.index_file import Index
from sweephand.files.local import join_pieces
from sweephand.files.source_file import SourceFile

_UNIT_BYTES = 1 << 17
_MOST_GAP = 1 << 16  # bytes that are fetched in vain rather than to ask twice

Pieces = NDArray[np.int64]
"""Values of rows: file number, byte where they begin, and size in bytes; shape (rows, 3)."""


class PlacedDeserializer(IndexedDeserializer):
    """Serve rows of bare values in files; a scan adds its streams by `add_placed`."""

    def is_held(self, stream: str) -> bool:
        """Return True if the index holds the values of a stream, rather than their places."""
        return False

    def contents(self, index: Index) -> Sequence[SourceFile]:
        """Return the files that places refer to: the content of those that are compressed."""
        return index.files

    def make_reader(
        self, rows: RowTable, infos: Sequence[StreamInfo], ledger: Ledger
    ) -> StoredReader:
        """Return the reader of rows in place, or of their chunks from a store."""
        columns: list[ColumnData] = []
        pieces: dict[int, Pieces] = {}  # by the number of the column
        for number, (name, kind) in enumerate(self.kinds.items()):
            lengths = rows.lengths_of(name, slice(0, len(rows.is_served)))
            if self.is_held(name):
                columns.append(_held_column(rows.index, name, kind, lengths))
                continue
            sizes = np.where(rows.is_served, rows.index.arrays[f"sizes of {name}"], 0)
            begins = rows.index.arrays[f"begins of {name}"]
            pieces[number] = np.stack([rows.files_of_rows(), begins, sizes], axis=1)
            column = replace(
                kind.to_column(),
                values=None,
                num_samples=int(lengths.sum(dtype=np.int64)),
                sample_offsets=_offsets(lengths),
                element_offsets=offsets_of(sizes[lengths > 0]) if kind.are_bytes else None,
            )
            columns.append(column)
        files = self.contents(rows.index)
        access = access_to(files)
        if access.local is not None:
            for number, own in pieces.items():
                filled = own[own[:, 2] > 0].astype(np.uint64)
                extents = join_pieces(access.local, filled)
                columns[number] = replace(columns[number], extents=extents)
        return bare_reader(
            columns if access.is_local else None,
            partial(_load_rows, files, columns, pieces),
            skipped=np.flatnonzero(~rows.is_served),
            streams=infos,
            chunks=rows.chunk_rows,
            measure=rows.measure,
            sample_bytes=rows.sample_bytes,
            load_threads=access.threads(),
            holds_stored=not access.is_local,
        )


def add_units(scan: UnitScan, num_bytes: NDArray[np.integer]) -> None:
    """Cut the rows of a file into units; `num_bytes` are those of every row with all its."""
    unit_bytes = min(_UNIT_BYTES, chunks.CHUNK_BYTES)
    begins = offsets_of(num_bytes)[:-1]
    firsts = np.flatnonzero(np.diff(begins // unit_bytes, prepend=-1))
    scan.rows += np.diff(firsts, append=len(num_bytes)).tolist()
    if len(firsts):
        scan.num_bytes += np.add.reduceat(num_bytes, firsts).tolist()


def samples_of(
    dtype: np.dtype[Any], shape: tuple[int, ...], wanted: tuple[int, ...] | None
) -> tuple[SampleType, int]:
    """Return type and number of an array's samples: its rows, or of a given shape.

    Raises
    ------
    ValueError
        If the array has no samples of that shape.
    """
    sample = shape[1:] if wanted is None else wanted
    rows = (1, *shape) if len(shape) == len(sample) else shape
    if rows[1:] != sample:
        raise ValueError(f"holds an array of shape {shape}, not of {sample}")
    return SampleType(dtype.name, sample, is_ragged=True), rows[0]


def add_placed(
    scan: UnitScan,
    name: str,
    kind: SampleType | None,
    lengths: NDArray[np.integer],
    begins: NDArray[np.integer],
    sizes: NDArray[np.integer],
) -> None:
    """Add a stream to a scan: samples, place and bytes of every row.

    Parameters
    ----------
    kind : SampleType or None
        None if no row of the file has a sample.
    """
    if kind is not None:
        scan.kinds[name] = kind
    scan.lengths[name] = [lengths]
    scan.arrays[f"begins of {name}"] = begins.astype(np.int64)
    scan.arrays[f"sizes of {name}"] = sizes.astype(np.int64)


def add_held(scan: UnitScan, name: str, column: ColumnData, *, is_known: bool) -> None:
    """Add a stream to a scan whose values the index holds."""
    assert column.values is not None
    if is_known:
        scan.kinds[name] = SampleType.of(column)
    scan.lengths[name] = [column.lengths]
    values = np.ascontiguousarray(column.values).reshape(-1).view(np.uint8)
    scan.arrays[f"values of {name}"] = values
    begins = column.element_offsets
    sizes = np.empty(0, np.int64) if begins is None else np.diff(begins)
    scan.arrays[f"bytes of {name}"] = sizes


def _held_column(
    index: Index, name: str, kind: SampleType, lengths: NDArray[np.integer]
) -> ColumnData:
    column = kind.to_column()
    values = np.ascontiguousarray(index.arrays[f"values of {name}"])
    num_samples = int(lengths.sum(dtype=np.int64))
    column = replace(column, num_samples=num_samples, sample_offsets=_offsets(lengths))
    if kind.are_bytes:
        begins = offsets_of(index.arrays[f"bytes of {name}"])
        return replace(column, values=values, element_offsets=begins)
    numbers = values.view(column.dtype).reshape(-1, *column.shape)
    return replace(column, values=numbers)


def _offsets(lengths: NDArray[np.integer]) -> NDArray[np.int64] | None:
    return None if bool((lengths == 1).all()) else offsets_of(lengths)


def _load_rows(
    files: Sequence[SourceFile],
    columns: Sequence[ColumnData],
    pieces: Mapping[int, Pieces],
    first: int,
    end: int,
) -> list[ColumnData]:
    """Load rows of a store by few requests: the values of all their streams together."""
    rows = np.arange(first, end)
    wanted = {number: own[first:end] for number, own in pieces.items()}
    wanted = {number: own[own[:, 2] > 0] for number, own in wanted.items()}
    found = dict(zip(wanted, _fetch(files, list(wanted.values())), strict=True))
    loaded = []
    for number, column in enumerate(columns):
        part = take(column, rows)
        if number in found:
            values = found[number]
            if not column.is_bytes:
                values = values.view(column.dtype).reshape(-1, *column.shape)
            part = replace(part, values=values)
        loaded.append(part)
    return loaded


def _fetch(files: Sequence[SourceFile], wanted: Sequence[Pieces]) -> list[NDArray[np.uint8]]:
    """Return the bytes of each run of pieces."""
    every = np.concatenate([np.empty((0, 3), np.int64), *wanted])
    order = np.lexsort((every[:, 1], every[:, 0]))
    found: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)] * len(every)
    number, begin, stop = -1, 0, 0
    group: list[int] = []
    for place in [*order.tolist(), None]:
        if place is not None:
            file, at, size = every[place].tolist()
            if group and file == number and at <= stop + _MOST_GAP:
                group.append(place)
                stop = max(stop, at + size)
                continue
        if group:
            content = files[number].fetch(begin, stop - begin)
            files[number].check_unchanged()
            for one in group:
                inside = int(every[one, 1]) - begin
                found[one] = content[inside : inside + int(every[one, 2])]
        if place is not None:
            number, begin, stop, group = file, at, at + size, [place]
    ends = offsets_of([len(one) for one in wanted]).tolist()
    return [
        np.concatenate([np.empty(0, np.uint8), *found[begin:end]])
        for begin, end in pairwise(ends)
    ]
