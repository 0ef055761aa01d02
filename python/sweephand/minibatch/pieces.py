"""The cells of dense arrays: what they hold, and what a model is to predict there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

START, VALID, GAP = 2, 1, 0


@dataclass(frozen=True)
class Pieces:
    """Where sequences, or pieces of them, stand in rows.

    Attributes
    ----------
    cells : ndarray, shape (pieces, 4)
        Row, column, sample of the sequence that the piece begins with, and samples of the whole
        sequence.
    sizes : ndarray, shape (pieces,)
        Samples of each piece.
    num_rows : int
        Rows, empty ones too.
    """

    cells: NDArray[np.uint32]
    sizes: NDArray[np.uint32]
    num_rows: int

    def starts(self) -> NDArray[np.int64]:
        """Return the column of each piece, or minus the samples before a continued one."""
        columns, firsts = self.cells[:, 1].astype(np.int64), self.cells[:, 2].astype(np.int64)
        return np.where(firsts > 0, -firsts, columns)

    def costs(self) -> NDArray[np.int64]:
        """Return the sum of squared sizes of each row."""
        costs = np.zeros(self.num_rows, np.int64)
        np.add.at(costs, self.cells[:, 0], self.sizes.astype(np.int64) ** 2)
        return costs

    def boundaries(self, most: int | None = None) -> NDArray[np.int32]:
        """Return 0 and the ends of the pieces of each row; the last end repeats.

        Raises
        ------
        ValueError
            If a row has more than `most` pieces.
        """
        rows = self.cells[:, 0]
        counts = np.bincount(rows, minlength=self.num_rows)
        found = int(counts.max(initial=0))
        if most is not None and found > most:
            raise ValueError(f"a row has {found} sequences, more than the capacity of {most}")
        firsts = np.cumsum(counts) - counts
        boundaries = np.zeros((self.num_rows, (most or found) + 1), np.int32)
        boundaries[rows, np.arange(len(rows)) - firsts[rows] + 1] = self._ends()
        return np.maximum.accumulate(boundaries, axis=1)

    def dense_boundaries(self, row_length: int) -> NDArray[np.int64]:
        """Return the boundaries in the cells of all rows; what pads a row is one more piece."""
        row_ends = np.arange(self.num_rows + 1) * row_length
        ends = self.cells[:, 0].astype(np.int64) * row_length + self._ends()
        return np.union1d(row_ends, ends)

    def _ends(self) -> NDArray[np.int64]:
        """Return the column behind each piece."""
        ends: NDArray[np.int64] = self.cells[:, 1].astype(np.int64) + self.sizes
        return ends

    def begin_labels(self, labels: NDArray[np.int64], ignore_index: int) -> None:
        """Write `ignore_index` at the first cell of each piece."""
        labels[self.cells[:, 0], self.cells[:, 1]] = ignore_index

    def end_labels(
        self, labels: NDArray[np.int64], beyond: NDArray[Any] | None, ignore_index: int
    ) -> None:
        """Write at the last cell of each piece the sample behind it, or `ignore_index`."""
        going = self.cells[:, 2].astype(np.int64) + self.sizes < self.cells[:, 3]
        last = self._ends() - 1
        labels[self.cells[:, 0], last] = ignore_index
        if beyond is not None:
            labels[self.cells[going, 0], last[going]] = beyond[going]


def next_tokens(
    tokens: NDArray[Any], mask: NDArray[np.uint8], ignore_index: int
) -> NDArray[np.int64]:
    """Return at every cell the next token of the same sequence, else `ignore_index`.

    Parameters
    ----------
    tokens, mask : ndarray, shape (rows, columns)
        The mask says 2 at the start of a sequence, 1 inside it, 0 in gaps.
    """
    labels = np.full(mask.shape, ignore_index, np.int64)
    follows = mask[:, 1:] == VALID
    np.copyto(labels[:, :-1], tokens[:, 1:], where=follows, casting="unsafe")
    return labels


def same_tokens(
    tokens: NDArray[Any], mask: NDArray[np.uint8], ignore_index: int
) -> NDArray[np.int64]:
    """Return the tokens, but `ignore_index` at the start of sequences and in gaps."""
    labels = np.full(mask.shape, ignore_index, np.int64)
    np.copyto(labels, tokens, where=mask == VALID, casting="unsafe")
    return labels
