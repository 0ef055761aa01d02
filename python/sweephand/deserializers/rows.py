"""The rows of indexed files as sequences: sizes, ids and chunks, known without reading them.

::

    files   | a.parquet          | b.parquet | c.parquet    |
    units   | unit | unit | unit | unit      | unit | unit  |   what can be read by itself
    chunks  | chunk       | chunk            | chunk | chunk |   some MB of units each
    rows    one sequence each; the damaged ones are held by the core, but not served
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.columns import offsets_of
from sweephand.deserializers.base import Sizing, Stored, chunk_starts
from sweephand.errors import DataError
from sweephand.ids import FrameIds, KeptIds, SequenceIds, ShardIds
from sweephand.index_file import Index
from sweephand.ledger import Ledger

CHUNK_BYTES = 8 << 20


class Rows:
    """Which rows there are, how long they are, and in which chunk they lie.

    Parameters
    ----------
    index : Index
        Arrays "rows" and "num_bytes" per unit, and "damaged_rows".
    lengths : dict of (ndarray of uint32, shape (rows,), or None)
        Samples of every row per stream; None: one each.
    size_stream : str or None
        The stream that defines the size, if one of these does; None: the longest.
    ledger : Ledger
        Where rows without samples are counted.
    frames : bool
        Every sample is its own sequence.
    order : ndarray of int64, optional
        The row that each sequence is; by default the rows one after the other.
    chunk_per_unit : bool
        Units are not joined to chunks.

    Attributes
    ----------
    unit_rows : ndarray of int64, shape (units + 1,)
        The first row of every unit, and the end.
    chunk_units : ndarray of int64, shape (chunks + 1,)
        The first unit of every chunk, and the end.
    starts : ndarray of int64
        The first sequence of every chunk of the corpus among those that are served, and the end.
    stored : Stored or None
        What the core holds, if that is not what is served.
    ids : SequenceIds
        Of what is served.
    """

    def __init__(
        self,
        index: Index,
        lengths: Mapping[str, NDArray[np.uint32] | None],
        size_stream: str | None,
        ledger: Ledger,
        *,
        frames: bool = False,
        order: NDArray[np.int64] | None = None,
        chunk_per_unit: bool = False,
    ) -> None:
        self.index = index
        self.lengths = lengths
        self.unit_rows = offsets_of(index.arrays["rows"])
        num_bytes = index.arrays["num_bytes"]
        self.chunk_units = (
            np.arange(len(num_bytes) + 1) if chunk_per_unit else cut_chunks(num_bytes)
        )
        self.num_rows = int(self.unit_rows[-1])
        self._file_rows = self.unit_rows[index.starts["rows"]]
        self._is_served = np.ones(self.num_rows, np.bool_)
        self._is_served[self._damaged()] = False
        self._leave_out_empty(size_stream, ledger)
        self._frame_offsets = self._common_offsets() if frames else None
        self._choose(order)

    def size_by(self, stream: str | None) -> Sizing:
        """Return the sizes of what is served, in samples of a stream; None: of the longest."""
        sizes = None if self._frame_offsets is not None else self._sizes(stream)
        if sizes is None:
            return Sizing(_core.CommonSize(1), np.diff(self.starts).astype(np.uint64))
        if self.stored is not None:
            sizes = sizes[self.stored.numbers]
        if sizes.min() == 0:
            raise ValueError(
                f"sequence {int(sizes.argmin())} has no sample in stream {stream!r}, which "
                "defines its size"
            )
        samples = np.diff(offsets_of(sizes)[self.starts]).astype(np.uint64)
        if sizes.min() == sizes.max():
            return Sizing(_core.CommonSize(int(sizes[0])), samples)
        return Sizing(_core.StoredSizes(sizes), samples)

    @property
    def sample_bytes(self) -> float:
        """Mean bytes of a row for one sample of the longest stream."""
        sizes = self._sizes(None)
        num_samples = self.num_rows if sizes is None else int(sizes.sum(dtype=np.int64))
        return int(self.index.arrays["num_bytes"].sum()) / max(1, num_samples)

    def is_served(self, begin: int, end: int) -> NDArray[np.bool_]:
        """Return for the rows of units ``[begin, end)`` whether each is served."""
        return self._is_served[int(self.unit_rows[begin]) : int(self.unit_rows[end])]

    def lengths_of(self, stream: str, begin: int, end: int) -> NDArray[np.uint32]:
        """Return the samples of the rows of units ``[begin, end)``."""
        first, stop = self.unit_rows[[begin, end]].tolist()
        lengths = self.lengths[stream]
        return np.ones(stop - first, np.uint32) if lengths is None else lengths[first:stop]

    def numbers(self, rows: Iterable[int], first_unit: int) -> list[int]:
        """Return what the core calls some rows, in a chunk that begins with a unit."""
        offsets = self._frame_offsets
        first = int(self.unit_rows[first_unit])
        if offsets is None:
            return [row - first for row in rows]
        return [
            frame - int(offsets[first])
            for row in rows
            for frame in range(int(offsets[row]), int(offsets[row + 1]))
        ]

    def _damaged(self) -> NDArray[np.int64]:
        counts = np.diff(self.index.starts["damaged_rows"])
        return np.repeat(self._file_rows[:-1], counts) + self.index.arrays["damaged_rows"]

    def _sizes(self, stream: str | None) -> NDArray[np.uint32] | None:
        """Return the sizes of all rows; None: one sample each."""
        chosen = list(self.lengths.values()) if stream is None else [self.lengths[stream]]
        known = [lengths for lengths in chosen if lengths is not None]
        if not known:
            return None
        sizes: NDArray[np.uint32] = known[0] if len(known) == 1 else np.maximum.reduce(known)
        return sizes if len(known) == len(chosen) else np.maximum(sizes, 1)

    def _leave_out_empty(self, stream: str | None, ledger: Ledger) -> None:
        sizes = self._sizes(stream)
        if sizes is None:
            return
        empty = np.flatnonzero((sizes == 0) & self._is_served)
        where = "any stream" if stream is None else f"stream {stream!r}, which defines its size"
        for row in empty.tolist():
            reason = f"the sequence has no sample in {where}"
            ledger.add(DataError(reason, *self._place(row)))
        self._is_served[empty] = False

    def _place(self, row: int) -> tuple[str, None, None, None, int]:
        file = int(np.searchsorted(self._file_rows, row, side="right")) - 1
        number = row - int(self._file_rows[file])
        return self.index.files[file].path, None, None, None, number

    def _common_offsets(self) -> NDArray[np.int64]:
        """Return the first sample of every row, of which all streams have as many."""
        ones = np.ones(self.num_rows, np.uint32)
        lengths = {name: ones if own is None else own for name, own in self.lengths.items()}
        (first_name, first), *others = lengths.items()
        for name, other in others:
            differs = (first != other) & self._is_served
            if differs.any():
                raise DataError(
                    f"frames need streams of equal lengths; {name!r} differs from "
                    f"{first_name!r}",
                    *self._place(int(np.argmax(differs))),
                )
        return offsets_of(first)

    def _choose(self, order: NDArray[np.int64] | None) -> None:
        """Find what is served, in which order and in which chunks, and how it is called."""
        offsets = self._frame_offsets
        if order is None:
            kept = rows = np.flatnonzero(self._is_served)
            counts = self._file_rows
            names = [file.name for file in self.index.files]
        else:
            kept = np.flatnonzero(self._is_served[order])
            rows = order[kept]
            counts = np.array([0, len(order)])
            names = [self.index.files[0].name]
        if not kept.size:
            raise DataError("the corpus is empty: no sequences", self.index.files[0].path)
        self.ids: SequenceIds = ShardIds(names, counts.tolist())
        chunk_rows = self.unit_rows[self.chunk_units]
        if offsets is not None:
            named = offsets if order is None else offsets_of(np.diff(offsets)[order])
            self.ids = FrameIds(self.ids, named)
            kept, rows = ranges(named, kept), ranges(offsets, rows)
            chunk_rows = offsets[chunk_rows]
        num_stored = int(chunk_rows[-1])
        self.stored: Stored | None = None
        self.starts = chunk_rows
        if order is None and len(kept) == num_stored:
            return
        self.ids = KeptIds(self.ids, kept)
        self.stored = Stored(np.diff(chunk_rows).astype(np.uint64), rows.astype(np.uint64))
        if order is None:
            self.starts = np.searchsorted(kept, chunk_rows)
        else:
            self.starts = chunk_starts(len(kept), -(-len(kept) // (len(chunk_rows) - 1)))


def ranges(offsets: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all integers of the ranges ``[offsets[n], offsets[n + 1])`` one after the other.

    Examples
    --------
    >>> ranges(np.array([0, 2, 2, 5]), np.array([2, 0]))
    array([2, 3, 4, 0, 1])
    """
    lengths = offsets[numbers + 1] - offsets[numbers]
    ends = offsets_of(lengths)
    return np.arange(ends[-1]) + np.repeat(offsets[numbers] - ends[:-1], lengths)


def cut_chunks(num_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first unit of every chunk, and the end.

    A chunk ends with the unit that fills it up to `CHUNK_BYTES`: large files are split between
    units and small ones joined. It depends on nothing but the units, as the order does.
    """
    if not num_bytes.size:
        return np.zeros(1, np.int64)
    begins = np.append(0, np.cumsum(num_bytes)[:-1])
    starts = np.flatnonzero(np.diff(begins // CHUNK_BYTES, prepend=-1))
    return np.append(starts, len(num_bytes)).astype(np.int64)
