"""Columns stored bare in files: local files are read in place, remote files by requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import (
    ColumnData,
    column_of_bytes,
    offsets_of,
    read_offsets,
    take,
)
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sizes import Sizing, size_columns
from sweephand.corpus.streams import StreamInfo, sizing_streams
from sweephand.files.local import access_to, join_pieces
from sweephand.files.source_file import SourceFile

_MOST_GAP = 1 << 16  # bytes that are fetched in vain rather than to ask twice


@dataclass(frozen=True)
class FileColumn:
    """A stream whose values are pieces of files."""

    column: ColumnData  # all but the values
    files: Sequence[SourceFile]
    # file number, byte where it begins, and size, of consecutive values; shape (pieces, 3)
    pieces: NDArray[np.uint64]
    # Of numbers of another byte order, or texts of a fixed width, which are converted when they
    # are read; None: they lie as they are served.
    stored: np.dtype[Any] | None = None

    def in_place(self) -> ColumnData:
        """Return the column as the core reads it in local files."""
        if self.column.values is not None:  # in memory, or in the index
            return self.column
        extents = join_pieces(access_to(self.files).local or [], self.pieces)
        return replace(self.column, extents=extents)

    def part(self, first: int, end: int) -> FileColumn:
        """Return sequences ``[first, end)``, with no other pieces than they have."""
        column, offsets = self.column, self.column.sample_offsets
        if column.values is not None:
            return FileColumn(take(column, np.arange(first, end)), (), self.pieces[:0])
        begin, stop = first, end
        if offsets is not None:
            offsets = read_offsets(column, offsets[first : end + 1].copy)
            begin, stop = offsets[[0, -1]].tolist()
            offsets -= begin
        elements = column.element_offsets
        if elements is not None and self.stored is None:
            elements = elements[begin : stop + 1]
        firsts, start, last = self._byte_starts, self._byte_at(begin), self._byte_at(stop)
        which = slice(
            int(np.searchsorted(firsts, start, side="right")) - 1,
            int(np.searchsorted(firsts, last, side="left")),
        )
        if start == last:
            which = slice(0, 0)
        low = np.maximum(firsts[:-1][which], start)
        high = np.minimum(firsts[1:][which], last)
        numbers, places, _ = self.pieces[which].astype(np.int64).T
        pieces = np.stack([numbers, places + low - firsts[:-1][which], high - low], axis=1)
        column = replace(
            column,
            num_samples=stop - begin,
            sample_offsets=offsets,
            element_offsets=None if elements is None else elements - elements[0],
        )
        return FileColumn(column, self.files, pieces.astype(np.uint64), self.stored)

    def filled(self, contents: Sequence[NDArray[np.uint8]]) -> ColumnData:
        """Return the column with values, whose bytes are those of each piece."""
        column = self.column
        if column.values is not None:
            return column
        content: NDArray[Any] = contents[0] if len(contents) == 1 else _joined(contents)
        if column.element_offsets is not None and self.stored is None:
            return replace(column, values=content)
        content = content.view(column.dtype if self.stored is None else self.stored)
        if column.is_bytes:
            texts = content.tolist()
            if content.dtype.kind != "S":
                texts = [one.encode(errors="surrogateescape") for one in texts]
            return replace(column_of_bytes(texts), sample_offsets=column.sample_offsets)
        values = content.reshape(column.num_samples, *column.shape)
        return replace(column, values=values.astype(column.dtype, copy=False))

    @cached_property
    def _byte_starts(self) -> NDArray[np.int64]:
        """The place of each piece in the run of all of them, and the end."""
        return offsets_of(self.pieces[:, 2].astype(np.int64))

    def _byte_at(self, sample: int) -> int:
        """Return the place of a sample in the run of all pieces."""
        column = self.column
        if column.element_offsets is not None and self.stored is None:
            return int(column.element_offsets[sample])
        stored = column.dtype if self.stored is None else self.stored
        return sample * math.prod(column.shape) * stored.itemsize


def read_columns(
    columns: Sequence[FileColumn],
    infos: Sequence[StreamInfo],
    chunks: _core.index.Starts,
    sample_bytes: float,
    *,
    skipped: NDArray[np.int64] | None = None,
    measure: Callable[[], Sizing] | None = None,
) -> StoredReader:
    """Return the reader of columns: of local files by sequences, else by chunks.

    `chunks` has the first sequence of every chunk; `skipped` are damaged sequences, ascending.
    """
    access = access_to([file for column in columns for file in column.files])
    if measure is None:
        known = {info.name: one.column for info, one in zip(infos, columns, strict=True)}
        sizing = sizing_streams({info.name: info for info in infos})
        measure = partial(size_columns, known, chunks, sizing, skipped=skipped)
    if skipped is None:
        skipped = np.empty(0, np.int64)

    def load(chunk: int) -> _core.read.Chunk:
        first, end = chunks.bounds(chunk)
        within = skipped[slice(*np.searchsorted(skipped, (first, end)))] - first
        parts = [one.part(first, end) for one in columns]
        found = [part.filled(own) for part, own in zip(parts, _fetch(parts), strict=True)]
        return make_chunk(found, skipped=within.tolist())

    core: _core.read.Deserializer = _core.read.CallbackDeserializer(load)
    chunked: _core.read.Deserializer | None = None
    is_bare = access.is_local and all(one.stored is None for one in columns)
    if is_bare:
        in_place = [one.in_place() for one in columns]
        whole = make_chunk(in_place, owned=False, skipped=skipped.tolist())
        core = _core.read.ResidentDeserializer(whole)
        chunked = _core.read.ExtentChunks(whole, chunks.offsets().view(np.uint64))
    num_bytes = sum(int(one.pieces[:, 2].sum()) for one in columns)
    return StoredReader(
        core=core,
        streams=infos,
        chunks=chunks,
        measure=measure,
        resident=is_bare,
        sample_bytes=sample_bytes,
        load_threads=access.threads(chunk_bytes=num_bytes // max(1, len(chunks))),
        holds_stored=not access.is_local,
        chunked=chunked,
    )


def _fetch(columns: Sequence[FileColumn]) -> list[list[NDArray[np.uint8]]]:
    """Return the bytes of the pieces of each column, by few requests for all of them."""
    found: list[list[NDArray[np.uint8]]] = []
    wanted: dict[SourceFile, list[tuple[int, int, int, int]]] = {}
    for number, column in enumerate(columns):
        found.append([np.empty(0, np.uint8)] * len(column.pieces))
        for place, (file, begin, size) in enumerate(column.pieces.tolist()):
            wanted.setdefault(column.files[file], []).append((begin, size, number, place))
    for file, pieces in wanted.items():
        pieces.sort()
        starts = [0]  # of requests
        end = sum(pieces[0][:2])
        for at, (begin, size, *_) in enumerate(pieces):
            if begin > end + _MOST_GAP:
                starts.append(at)
            end = max(end, begin + size)
        for first, stop in pairwise([*starts, len(pieces)]):
            group = pieces[first:stop]
            start = group[0][0]
            content = file.fetch(start, max(sum(one[:2]) for one in group) - start)
            file.check_unchanged()
            for begin, size, number, place in group:
                own = content[begin - start : begin - start + size]
                # A copy is aligned, and keeps no other values in memory.
                found[number][place] = own if len(group) == 1 else own.copy()
    return found


def _joined(contents: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    return np.concatenate([np.empty(0, np.uint8), *contents])
