"""The begins and ends of sequences, or pieces of them, in rows."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.layouts import Layout


class Pieces:
    """Positions of sequences, or pieces of them, in rows."""

    def __init__(
        self, cells: NDArray[np.int64], sizes: NDArray[np.int64], num_rows: int
    ) -> None:
        self._cells, self._sizes, self.num_rows = cells, sizes, num_rows

    @classmethod
    def of(cls, batch: _core.engine.Batch, layout: Layout) -> Self:
        """Return the pieces of a share; AttributeError if the layout has no rows."""
        if not layout.has_rows:
            raise AttributeError(f"rows come with Packed or TruncatedBPTT, this is {layout!r}")
        cells = batch.cells().reshape(-1, 4).astype(np.int64)
        return cls(cells, batch.sizes().astype(np.int64), batch.num_rows)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each piece."""
        return self._cells[:, 0]

    @property
    def columns(self) -> NDArray[np.int64]:
        """The column at which each piece begins."""
        return self._cells[:, 1]

    @property
    def ends(self) -> NDArray[np.int64]:
        """The column after each piece."""
        return self.columns + self._sizes

    @property
    def goes_on(self) -> NDArray[np.bool_]:
        """True for each piece whose sequence has more samples after it."""
        _, _, firsts, wholes = self._cells.T
        has_more: NDArray[np.bool_] = firsts + self._sizes < wholes
        return has_more

    def starts(self) -> NDArray[np.int64]:
        """Return the column of each piece, or minus the samples before a continued piece."""
        firsts = self._cells[:, 2]
        return np.where(firsts > 0, -firsts, self.columns)

    def costs(self) -> NDArray[np.int64]:
        """Return the sum of squared sizes of each row."""
        costs = np.zeros(self.num_rows, np.int64)
        np.add.at(costs, self.rows, self._sizes**2)
        return costs

    def boundaries(self, most: int | None = None) -> NDArray[np.int32]:
        """Return 0 and the ends of the pieces of each row; the last end repeats."""
        numbers = self._numbers_in_row()
        found = int(numbers.max(initial=0))
        if most is not None and found > most:
            raise ValueError(f"a row has {found} sequences, more than the capacity of {most}")
        boundaries = np.zeros((self.num_rows, (most or found) + 1), np.int32)
        boundaries[self.rows, numbers] = self.ends
        return np.maximum.accumulate(boundaries, axis=1)

    def segments(self, row_length: int) -> NDArray[np.int32]:
        """Return which piece of its row each cell holds, from 1: int32, (rows, row length)."""
        return self._spread(self._numbers_in_row(), row_length)

    def positions(self, row_length: int) -> NDArray[np.int32]:
        """Return where in its piece each cell is: int32, (rows, row length)."""
        begins = self._spread(self.columns, row_length)
        columns = np.arange(row_length, dtype=np.int32)
        return np.where(self.segments(row_length) > 0, columns - begins, np.int32(0))

    def _numbers_in_row(self) -> NDArray[np.int64]:
        """Return the number of each piece in its row, from 1."""
        counts = np.bincount(self.rows, minlength=self.num_rows)
        before = np.cumsum(counts) - counts
        return np.arange(len(self.rows)) - before[self.rows] + 1

    def _spread(self, numbers: NDArray[np.int64], row_length: int) -> NDArray[np.int32]:
        """Return the number of each piece in all of its cells, and 0 in gaps."""
        cells = np.zeros(self.num_rows * row_length, np.int32)
        sizes = self._sizes
        firsts = np.repeat(self.rows * row_length + self.columns, sizes)
        within = np.arange(len(firsts)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        cells[firsts + within] = np.repeat(numbers, sizes)
        return cells.reshape(self.num_rows, row_length)

    def dense_boundaries(self, row_length: int) -> NDArray[np.int64]:
        """Return the boundaries in the cells of all rows, a row's padding as a piece."""
        row_ends = np.arange(self.num_rows + 1) * row_length
        return np.union1d(row_ends, self.rows * row_length + self.ends)


def repeat_last(
    boundaries: NDArray[np.integer], capacity: int | None, more: int = 0
) -> NDArray[np.int32]:
    """Return boundaries as int32, those of exactly `capacity` + `more` sequences.

    The last ones are empty. Without a capacity there are as many as were found.
    """
    as_int32: NDArray[np.int32] = boundaries.astype(np.int32)
    if capacity is None:
        return as_int32
    found, capacity = len(as_int32) - 1, capacity + more
    if found > capacity:
        raise ValueError(
            f"the share has {found} sequences, more than the cu_seqlens_capacity of {capacity}"
        )
    return np.pad(as_int32, (0, capacity - found), mode="edge")


def segments_of(found: NDArray[np.int32] | None, layout: Layout) -> NDArray[np.int32]:
    """Return the segments; AttributeError where a layout has none."""
    if found is None:
        raise AttributeError(f"segments come with layout=Packed(...), this is {layout!r}")
    return found
