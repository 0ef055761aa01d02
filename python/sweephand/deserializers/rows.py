"""The rows of indexed files as sequences: sizes, ids and chunks, known without reading them.

::

    files   | a.parquet          | b.parquet | c.parquet    |
    units   | unit | unit | unit | unit      | unit | unit  |   what can be read by itself
    chunks  | chunk       | chunk            | chunk | chunk |   some MB of units each
    rows    one sequence each; the damaged ones are held by the core, but not served
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.columns import offsets_of
from sweephand.deserializers.base import Sizing, Stored
from sweephand.errors import DataError
from sweephand.ids import FrameIds, KeptIds, SequenceIds, ShardIds
from sweephand.index_file import Index
from sweephand.ledger import Ledger
from sweephand.streams import StreamInfo

CHUNK_BYTES = 8 << 20


class Rows:
    """Which rows there are, how long they are, and in which chunk they lie.

    Attributes
    ----------
    unit_rows : ndarray of int64, shape (units + 1,)
        The first row of every unit, and the end.
    chunk_units : ndarray of int64, shape (chunks + 1,)
        The first unit of every chunk, and the end.
    lengths : dict of ndarray of uint32, shape (rows,)
        Samples of every row, per ragged stream.
    offsets : ndarray of int64 or None
        Of frames: the first sample of every row, and the end.
    served_starts : ndarray of int64, shape (chunks + 1,)
        The first sequence of every chunk among those that are served, and the end.
    stored : Stored or None
        What the core holds, if that is more.
    """

    def __init__(
        self, index: Index, infos: Sequence[StreamInfo], ledger: Ledger, frames: bool
    ) -> None:
        self.index = index
        self._frames = frames
        rows = index.arrays["rows"]
        self.unit_rows = offsets_of(rows)  # first row of every unit, and the end
        self.chunk_units = cut_chunks(index.arrays["num_bytes"])
        self.num_rows = int(self.unit_rows[-1])
        self.file_rows = self.unit_rows[index.starts["rows"]]
        self.lengths = {
            info.name: index.arrays[f"lengths of {info.name}"]
            for info in infos
            if index.arrays[f"lengths of {info.name}"].size
        }
        self._names = [info.name for info in infos]
        own = next((info.name for info in infos if info.defines_mb_size), None)
        is_served = np.ones(self.num_rows, np.bool_)
        is_served[self._damaged()] = False
        sizes = self._sizes(own)
        if sizes is not None:
            self._leave_out_empty(sizes, own, is_served, ledger)
        if not is_served.any():
            raise DataError("the corpus is empty: no sequences", index.files[0].path)
        chunk_rows = self.unit_rows[self.chunk_units]
        self.offsets = self._frame_offsets() if frames else None
        if self.offsets is not None:
            is_served = np.repeat(is_served, np.diff(self.offsets))
            chunk_rows = self.offsets[chunk_rows]
        self.ids: SequenceIds = ShardIds(
            [file.name for file in index.files], self.file_rows.tolist()
        )
        if frames:
            self.ids = FrameIds(self.ids, self.offsets)
        self._numbers: NDArray[np.int64] | None = None
        self.served_starts = chunk_rows
        self.stored: Stored | None = None
        if not is_served.all():
            self._numbers = np.flatnonzero(is_served)
            self.served_starts = np.searchsorted(self._numbers, chunk_rows)
            self.ids = KeptIds(self.ids, self._numbers)
            self.stored = Stored(
                np.diff(chunk_rows).astype(np.uint64), self._numbers.astype(np.uint64)
            )
        self.num_bytes = int(index.arrays["num_bytes"].sum())
        self.num_samples = self.num_rows if sizes is None else int(sizes.sum(dtype=np.int64))

    def size_by(self, stream: str | None) -> Sizing:
        """Return the sizes of what is served."""
        counts = np.diff(self.served_starts).astype(np.uint64)
        sizes = None if self._frames else self._sizes(stream)
        if sizes is None:
            return Sizing(_core.CommonSize(1), counts)
        if self._numbers is not None:
            sizes = sizes[self._numbers]
        if sizes.min() == 0:
            raise ValueError(
                f"sequence {int(sizes.argmin())} has no sample in stream {stream!r}, which "
                "defines its size"
            )
        samples = np.diff(offsets_of(sizes)[self.served_starts]).astype(np.uint64)
        if sizes.min() == sizes.max():
            return Sizing(_core.CommonSize(int(sizes[0])), samples)
        return Sizing(_core.StoredSizes(sizes), samples)

    def numbers_in(self, units: Sequence[int], first: int) -> list[int]:
        """Return the numbers of the sequences of units in a chunk that begins with `first`."""
        starts = self.unit_rows if self.offsets is None else self.offsets[self.unit_rows]
        return [
            number - int(starts[first])
            for unit in units
            for number in range(int(starts[unit]), int(starts[unit + 1]))
        ]

    def place(self, row: int) -> tuple[str, int]:
        """Return the file of a row, and its number there."""
        file = int(np.searchsorted(self.file_rows, row, side="right")) - 1
        return self.index.files[file].path, row - int(self.file_rows[file])

    def _damaged(self) -> NDArray[np.int64]:
        counts = np.diff(self.index.starts["damaged_rows"])
        starts = np.repeat(self.file_rows[:-1], counts)
        return starts + self.index.arrays["damaged_rows"]

    def _sizes(self, stream: str | None) -> NDArray[np.uint32] | None:
        """Return the sizes of all rows; None: one sample each."""
        names = self._names if stream is None else [stream]
        known = [self.lengths[name] for name in names if name in self.lengths]
        if not known:
            return None
        sizes: NDArray[np.uint32] = known[0] if len(known) == 1 else np.maximum.reduce(known)
        if len(known) < len(names):  # the others have one sample per row
            sizes = np.maximum(sizes, 1)
        return sizes

    def _leave_out_empty(
        self,
        sizes: NDArray[np.uint32],
        stream: str | None,
        is_served: NDArray[np.bool_],
        ledger: Ledger,
    ) -> None:
        empty = np.flatnonzero((sizes == 0) & is_served)
        where = "any stream" if stream is None else f"stream {stream!r}, which defines its size"
        for row in empty.tolist():
            path, number = self.place(row)
            ledger.add(
                DataError(f"the sequence has no sample in {where}", path, sequence=number)
            )
        is_served[empty] = False

    def _frame_offsets(self) -> NDArray[np.int64]:
        """Return the first sample of every row; all streams must have the same number."""
        ones = np.ones(self.num_rows, np.uint32)
        first, *others = [self.lengths.get(name, ones) for name in self._names]
        for name, other in zip(self._names[1:], others, strict=True):
            if not np.array_equal(first, other):
                path, number = self.place(int(np.argmax(first != other)))
                raise DataError(
                    f"frames need streams of equal lengths; this one differs from that of "
                    f"{self._names[0]!r}",
                    path,
                    stream=name,
                    sequence=number,
                )
        return offsets_of(first)


def cut_chunks(num_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first unit of every chunk, and the end.

    A chunk ends with the unit that fills it up to `CHUNK_BYTES`: large files are split between
    units and small ones joined. It depends on nothing but the units, as the order does.
    """
    if not num_bytes.size:
        return np.zeros(1, np.int64)
    ends = np.cumsum(num_bytes)
    number = np.append(0, ends[:-1]) // CHUNK_BYTES
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    return np.append(starts, len(num_bytes)).astype(np.int64)
