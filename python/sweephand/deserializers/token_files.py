"""Sequences of bare numbers in files, read where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.columns import ColumnData, describe_stream, offsets_of
from sweephand.deserializers.base import Opened, Sizing, Stored, make_chunk, size_columns
from sweephand.errors import DataError
from sweephand.files import LocalFile, SourceFile
from sweephand.ids import FrameIds, KeptIds, SequenceIds
from sweephand.ledger import Ledger
from sweephand.streams import StreamDef, StreamDefs

_CHUNK_BYTES = 8 << 20
_REMOTE_LOAD_THREADS = 16


@dataclass(frozen=True)
class TokenFiles:
    """One stream of numbers that lie bare in pieces of files.

    Attributes
    ----------
    files : sequence of SourceFile
        Those that the pieces are of.
    pieces : ndarray of uint64, shape (pieces, 3)
        File number, byte where it begins, and size in bytes. One behind the other they are the
        values of the stream.
    offsets : ndarray of int64, shape (sequences + 1,)
        Where each sequence begins, in elements of the stream.
    is_served : ndarray of bool, shape (sequences,)
        False for sequences that are damaged and left out.
    dtype : numpy.dtype
        Of the elements, in native byte order.
    """

    files: Sequence[SourceFile]
    pieces: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    is_served: NDArray[np.bool_]
    dtype: np.dtype[np.generic]

    def open(
        self,
        streams: StreamDefs | None,
        ids: SequenceIds,
        *,
        frames: bool = False,
        ledger: Ledger | None = None,
    ) -> Opened:
        """Return the corpus: local files are read sequence by sequence, others in chunks.

        Parameters
        ----------
        streams : StreamDefs, optional
            One stream, with the field "tokens".
        ids : SequenceIds
            Of all sequences, also of those that are not served.
        frames : bool
            Every sample is its own sequence.
        ledger : Ledger, optional
            Where sequences without tokens are counted.
        """
        is_served = self.is_served & (np.diff(self.offsets) > 0)
        for number in np.flatnonzero(self.is_served & ~is_served):
            (sequence,) = ids.names(np.array([number]))
            (ledger or Ledger()).add(DataError("the sequence has no tokens", sequence=sequence))
        if not is_served.any():
            raise DataError("the corpus is empty: no sequences", self.files[0].path)
        name, definition = _one_stream(streams)
        column = ColumnData(None, self.dtype, (), int(self.offsets[-1]), self.offsets)
        info = describe_stream(name, column, definition)
        bounds = self._chunk_bounds()
        starts = bounds
        if frames:
            is_served = np.repeat(is_served, np.diff(self.offsets))
            ids = FrameIds(ids, self.offsets)
            column = column.as_frames()
            starts = self.offsets[bounds]
        stored = None
        size_by = partial(size_columns, {name: column}, starts)
        if not is_served.all():
            numbers = np.flatnonzero(is_served)
            stored = Stored(np.diff(starts).astype(np.uint64), numbers.astype(np.uint64))
            starts = np.searchsorted(numbers, starts)
            sizes = column.lengths[numbers].astype(np.uint32)
            ids = KeptIds(ids, numbers)
            size_by = partial(_size_some, sizes, starts)
        is_local = all(isinstance(file, LocalFile) for file in self.files)
        return Opened(
            core=self._resident(column) if is_local else self._by_chunks(bounds, frames),
            streams=[info],
            chunk_sequences=np.diff(starts).astype(np.uint64),
            size_by=size_by,
            ids=ids,
            names=[file.name for file in self.files],
            resident=is_local,
            sample_bytes=self.dtype.itemsize,
            stored=stored,
            load_threads=1 if is_local else _REMOTE_LOAD_THREADS,
        )

    def _chunk_bounds(self) -> NDArray[np.int64]:
        """Return the first sequence of every chunk, and the end."""
        begins = self.offsets[:-1] * self.dtype.itemsize
        marks = np.arange(0, int(self.offsets[-1]) * self.dtype.itemsize, _CHUNK_BYTES)
        starts = np.unique(np.searchsorted(begins, marks))
        return np.unique(np.append(starts, len(begins)))

    def _resident(self, column: ColumnData) -> _core.Deserializer:
        listed = [file.listed() for file in self.files if isinstance(file, LocalFile)]
        numbers, offsets, sizes = np.ascontiguousarray(self.pieces.T)
        extents = _core.Extents(listed, numbers, offsets, sizes)
        return _core.ResidentDeserializer(
            make_chunk([replace(column, extents=extents)], owned=False)
        )

    def _by_chunks(self, bounds: NDArray[np.int64], frames: bool) -> _core.Deserializer:
        item = self.dtype.itemsize
        begins = offsets_of(self.pieces[:, 2].astype(np.int64))  # of pieces, in the stream

        def load(chunk: int) -> _core.Chunk:
            first, end = bounds[chunk : chunk + 2].tolist()
            offsets = self.offsets[first : end + 1] - self.offsets[first]
            values = np.empty(int(offsets[-1]) * item, np.uint8)
            begin = int(self.offsets[first]) * item
            done = 0
            while done < values.size:
                piece = int(np.searchsorted(begins, begin + done, side="right")) - 1
                file, offset, size = self.pieces[piece].tolist()
                inside = begin + done - int(begins[piece])
                part = values[done : done + size - inside]
                self.files[file].read_into(offset + inside, part)
                self.files[file].check_unchanged()
                done += part.size
            column = ColumnData(
                values.view(self.dtype), self.dtype, (), int(offsets[-1]), offsets
            )
            return make_chunk([column.as_frames() if frames else column])

        return _core.CallbackDeserializer(load)


def _one_stream(streams: StreamDefs | None) -> tuple[str, StreamDef]:
    defined = streams or StreamDefs(tokens=StreamDef())
    if len(defined) != 1:
        raise ValueError(f"there is one field, 'tokens', got streams {', '.join(defined)}")
    ((name, definition),) = defined.items()
    field = definition.field or name
    if field != "tokens":
        raise ValueError(f"there is no field {field!r}, only 'tokens'")
    return name, definition


def _size_some(
    sizes: NDArray[np.uint32], starts: NDArray[np.int64], stream: str | None
) -> Sizing:
    return Sizing(
        _core.StoredSizes(sizes), np.diff(offsets_of(sizes)[starts]).astype(np.uint64)
    )
