"""Columns stored bare in files: local files are read in place, remote files by requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import (
    ColumnData,
    column_of_bytes,
    concat_columns,
    offsets_of,
    read_offsets,
)
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sizes import Sizing, size_columns
from sweephand.corpus.streams import StreamInfo, sizing_streams
from sweephand.files.access import access_to
from sweephand.files.local import join_pieces
from sweephand.files.source_file import SourceFile


@dataclass(frozen=True)
class FileColumn:
    """A stream whose values are pieces of files."""

    column: ColumnData  # all but the values
    files: Sequence[SourceFile]
    # file number, byte where it begins, and size, of consecutive values; shape (pieces, 3)
    pieces: NDArray[np.uint64]
    # Of every piece, whole samples of numbers of another type or byte order, or of texts of a
    # fixed width, which are converted when they are read; None: they lie as they are served.
    stored: Sequence[np.dtype[Any]] | None = None

    @property
    def is_of_several(self) -> bool:
        """True if every sequence is a file of its own."""
        return len(self.files) > 1 and len(self.files) == self.column.num_sequences

    def in_place(self) -> ColumnData:
        """Return the column as the core reads it in local files."""
        extents = join_pieces(access_to(self.files).local or [], self.pieces)
        return replace(self.column, extents=extents)

    def load(self, first: int, end: int) -> ColumnData:
        """Return sequences ``[first, end)``, by one request for every piece."""
        column, offsets = self.column, self.column.sample_offsets
        own_offsets = None
        begin, stop = first, end
        if offsets is not None:
            own_offsets = read_offsets(column, offsets[first : end + 1].copy)
            begin, stop = own_offsets[[0, -1]].tolist()
            own_offsets -= begin
        parts = [self._converted(one) for one in self._samples(begin, stop)]
        loaded = concat_columns(parts or [self._converted(np.empty(0, column.dtype))])
        return replace(loaded, sample_offsets=own_offsets)

    def _converted(self, values: NDArray[Any]) -> ColumnData:
        """Return values as they are served, each sample a sequence."""
        column = self.column
        if column.is_bytes:
            texts = values.tolist()
            if values.dtype.kind != "S":
                texts = [one.encode(errors="surrogateescape") for one in texts]
            return column_of_bytes(texts)
        values = values.reshape(-1, *column.shape).astype(column.dtype, copy=False)
        return ColumnData(values, column.dtype, column.shape, len(values))

    def _samples(self, begin: int, stop: int) -> Iterator[NDArray[Any]]:
        """Read samples ``[begin, stop)`` as they are stored, those of each type together."""
        width = math.prod(self.column.shape)
        if self.stored is None:
            sample = width * self.column.dtype.itemsize
            yield self._read(begin * sample, (stop - begin) * sample).view(self.column.dtype)
            return
        samples = np.array([one.itemsize for one in self.stored]) * width
        ends = np.cumsum(self.pieces[:, 2].astype(np.int64) // samples)
        byte_starts = offsets_of(self.pieces[:, 2].astype(np.int64))
        piece = int(np.searchsorted(ends, begin, side="right"))
        while begin < stop:
            end = min(stop, int(ends[piece]))
            left = (int(ends[piece]) - begin) * int(samples[piece])  # in the piece
            at = int(byte_starts[piece + 1]) - left
            size = (end - begin) * int(samples[piece])
            yield self._read(at, size).view(self.stored[piece])
            begin, piece = end, piece + 1

    def _read(self, begin: int, size: int) -> NDArray[np.uint8]:
        starts = offsets_of(self.pieces[:, 2].astype(np.int64))
        parts: list[NDArray[np.uint8]] = []
        done = 0
        while done < size:
            piece = int(np.searchsorted(starts, begin + done, side="right")) - 1
            number, offset, num_bytes = self.pieces[piece].tolist()
            inside = begin + done - int(starts[piece])
            count = min(size - done, num_bytes - inside)
            parts.append(self.files[number].fetch(offset + inside, count))
            self.files[number].check_unchanged()
            done += count
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.uint8), *parts])


def read_columns(
    columns: Sequence[FileColumn],
    infos: Sequence[StreamInfo],
    chunks: _core.index.Starts,
    sample_bytes: float,
    *,
    skipped: NDArray[np.int64] | None = None,
) -> StoredReader:
    """Return the reader of columns: of local files by sequences, else by chunks.

    `chunks` has the first sequence of every chunk; `skipped` are damaged sequences, ascending.
    """
    access = access_to([file for column in columns for file in column.files])
    known = {info.name: one.column for info, one in zip(infos, columns, strict=True)}
    are_bare = access.is_local and all(one.stored is None for one in columns)
    num_bytes = sum(int(one.pieces[:, 2].sum()) for one in columns)
    sizing = sizing_streams({info.name: info for info in infos})
    return bare_reader(
        [one.in_place() for one in columns] if are_bare else None,
        lambda first, end: [one.load(first, end) for one in columns],
        skipped=np.empty(0, np.int64) if skipped is None else skipped,
        streams=infos,
        chunks=chunks,
        measure=partial(size_columns, known, chunks, sizing, skipped=skipped),
        sample_bytes=sample_bytes,
        load_threads=access.threads(chunk_bytes=num_bytes // max(1, len(chunks))),
        holds_stored=not access.is_local,
    )


def bare_reader(
    in_place: Sequence[ColumnData] | None,
    load: Callable[[int, int], Sequence[ColumnData]],
    *,
    skipped: NDArray[np.int64],
    streams: Sequence[StreamInfo],
    chunks: _core.index.Starts,
    measure: Callable[[], Sizing],
    sample_bytes: float,
    load_threads: int,
    holds_stored: bool,
) -> StoredReader:
    """Return the reader of columns that are stored as they are served, or nearly."""

    def load_chunk(chunk: int) -> _core.read.Chunk:
        first, end = chunks.bounds(chunk)
        within = skipped[slice(*np.searchsorted(skipped, (first, end)))] - first
        return make_chunk(load(first, end), skipped=within.tolist())

    core: _core.read.Deserializer = _core.read.CallbackDeserializer(load_chunk)
    chunked: _core.read.Deserializer | None = None
    if in_place is not None:
        whole = make_chunk(in_place, owned=False, skipped=skipped.tolist())
        core = _core.read.ResidentDeserializer(whole)
        chunked = _core.read.ExtentChunks(whole, chunks.offsets().view(np.uint64))
    return StoredReader(
        core=core,
        streams=streams,
        chunks=chunks,
        measure=measure,
        resident=in_place is not None,
        sample_bytes=sample_bytes,
        load_threads=load_threads,
        holds_stored=holds_stored,
        chunked=chunked,
    )
