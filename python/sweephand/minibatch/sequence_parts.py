"""Parts of the sequences of a share, each of which is a segment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.minibatch.labels import PADDING, START
from sweephand.minibatch.pieces import Pieces


class SequenceParts:
    """Parts of the sequences of a share, in the order of their samples.

    Parameters
    ----------
    numbers : ndarray of int, shape (samples,)
        The part of each sample, by the number that a stream gives it.
    offsets : ndarray of int64, shape (sequences + 1,)
        Where each sequence begins, and the end.

    Attributes
    ----------
    offsets : ndarray of int64, shape (parts + 1,)
        Where each part begins, and the end.
    table : ndarray of int64, shape (parts, 2)
        The sequence of each part, as the share counts, and the number of the part.
    """

    def __init__(self, numbers: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        begins = np.zeros(len(numbers), np.bool_)
        begins[1:] = numbers[1:] != numbers[:-1]
        begins[offsets[:-1][np.diff(offsets) > 0]] = True
        starts = np.flatnonzero(begins)
        self.offsets: NDArray[np.int64] = np.append(starts, len(numbers))
        sequences = np.searchsorted(offsets, starts, side="right") - 1
        self.table = np.stack([sequences, numbers[starts].astype(np.int64)], axis=1)
        self._within = starts - offsets[sequences]  # samples of the sequence before each part

    @property
    def longest(self) -> int:
        """Samples of the longest part; 0 if there is none."""
        return int(np.diff(self.offsets).max(initial=0))

    def mark(self, mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the mask of a dense array, or of values, with starts of parts in it."""
        marked = mask.copy()
        cells = np.flatnonzero(mask.reshape(-1) != PADDING)
        marked.reshape(-1)[cells[self.offsets[:-1]]] = START
        return marked

    def segments(self, mask: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the part of its row that every cell of a dense array holds, from 1."""
        marked = self.mark(mask)
        numbers = np.cumsum(marked == START, axis=1, dtype=np.int32)
        return np.where(marked == PADDING, np.int32(0), numbers)

    def positions(self, mask: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return where in its part every cell of a dense array is; 0 in gaps."""
        marked, columns = self.mark(mask), np.arange(mask.shape[1], dtype=np.int32)
        starts = np.maximum.accumulate(np.where(marked == START, columns, 0), axis=1)
        return np.where(marked == PADDING, np.int32(0), columns - starts)

    def pieces(self, whole: Pieces) -> Pieces:
        """Return the parts as pieces of rows, of those of the sequences, which are whole."""
        sequences = self.table[:, 0]
        sizes = np.diff(self.offsets)
        cells = np.zeros((len(sizes), 4), np.int64)
        cells[:, 0] = whole.rows[sequences]
        cells[:, 1] = whole.columns[sequences] + self._within
        cells[:, 3] = sizes
        return Pieces(cells, sizes, whole.num_rows)
