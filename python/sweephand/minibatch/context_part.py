"""The part of a rank in packed rows whose context several ranks share."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.layouts.attention import Attention

if TYPE_CHECKING:
    from sweephand.minibatch.minibatch_data import MinibatchData


class ContextPart:
    """The cells of packed rows that belong to a rank of a context parallel group.

    They form runs: cells of a sequence, or of the padding of a row, that are adjacent in
    `Minibatch` and in the part. `take` selects them from any array with a value for every cell
    of the rows: tokens, labels (already shifted), position and segment ids. Places in the rows
    count through them all: row * row length + column.

    Attributes
    ----------
    shape : tuple of int
        (rows, row length / ranks): every rank has as much of every row.
    cuts_sequences : bool
        True if long sequences are cut each by itself, into 2 pieces per rank; else whole rows
        are cut. The same for all ranks.
    cost : float
        Cost of attention on the rank, in samples of a short sequence.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"ids": [np.arange(6), np.arange(2)]})
    >>> layout = sh.Packed(8)
    >>> source = sh.MinibatchSource(corpus, layout=layout, randomize=False, max_sweeps=1)
    >>> minibatch = source.next_minibatch(8)
    >>> ids = minibatch["ids"]
    >>> for part in minibatch.context_parts(2):
    ...     part.take(ids.asarray()), part.take(ids.labels()), part.k_ranges.tolist()
    (array([[0, 1, 0, 1]]), array([[   1,    2,    1, -100]]), [[0, 2], [6, 8]])
    (array([[2, 3, 4, 5]]), array([[   3,    4,    5, -100]]), [[0, 6]])
    """

    def __init__(
        self,
        split: _core.compose.ContextSplit,
        rank: int,
        whole: tuple[int, int],
        attention: Attention,
    ) -> None:
        """Take the part of `rank` of rows of the shape `whole`."""
        self._split = split
        self._rank = rank
        self._whole = whole
        self.shape = whole[0], whole[1] // len(split.costs)
        self.cuts_sequences = split.least_piece > 0
        self.cost = float(split.costs[rank]) / attention.equal_at

    @cached_property
    def _runs(self) -> NDArray[np.int64]:
        return self._split.runs(self._rank).reshape(-1, 4)

    @property
    def q_ranges(self) -> NDArray[np.int32]:
        """Which cells of the rows every run is: int32, shape (runs, 2), begin and end."""
        return self._runs[:, 1:3].astype(np.int32)

    @property
    def k_ranges(self) -> NDArray[np.int32]:
        """Ranges of keys that every run attends to: int32, shape (runs, 2).

        The cells of its sequence up to its own end. Attention is causal, with the last query
        and the last key in the same place, as kernels align them.
        """
        return self._runs[:, 0:3:2].astype(np.int32)

    @property
    def cu_seqlens_q(self) -> NDArray[np.int32]:
        """The begins of runs in the part, and its end: int32, shape (runs + 1,)."""
        return _boundaries(self.q_ranges)

    @property
    def cu_seqlens_k(self) -> NDArray[np.int32]:
        """The begins of runs in `k_cells`, and its end: int32, shape (runs + 1,)."""
        return _boundaries(self.k_ranges)

    @property
    def max_seqlen_q(self) -> int:
        """Cells of the longest run."""
        return int(np.diff(self.q_ranges).max(initial=0))

    @property
    def max_seqlen_k(self) -> int:
        """Cells that a run looks at, at most."""
        return int(np.diff(self.k_ranges).max(initial=0))

    @property
    def sequences(self) -> NDArray[np.int64]:
        """Which sequence of the minibatch every run is of: int64, (runs,); -1 is padding."""
        return self._runs[:, 3].copy()

    @cached_property
    def cells(self) -> NDArray[np.int64]:
        """The place of every cell of the part in the rows: int64, of `shape`."""
        return _all_cells(self.q_ranges).reshape(self.shape)

    @property
    def k_cells(self) -> NDArray[np.int64]:
        """The places of the keys of all runs in the rows, run after run: int64."""
        return _all_cells(self.k_ranges)

    def items(self, carried: MinibatchData) -> NDArray[np.int64]:
        """Return which items of a carried stream its sequences have: int64, ascending.

        Every rank holds the whole rows, and with them all that is carried. These are the items
        of the sequences that have cells in the part, wherever in them their placeholders are.
        """
        return np.flatnonzero(np.isin(carried.sequences, self.sequences))

    def take(self, rows: Any) -> Any:
        """Return the part of an array or tensor.

        Parameters
        ----------
        rows : ndarray or Tensor, shape (rows, row length, ...)

        Returns
        -------
        ndarray or Tensor, shape (rows, row length / ranks, ...)
        """
        if tuple(rows.shape[:2]) != self._whole:
            raise ValueError(
                f"rows must have the shape {self._whole}, and more axes after, got "
                f"{tuple(rows.shape)}; labels and marks are made for all rows, and then taken"
            )
        return rows.reshape(-1, *rows.shape[2:])[self.cells]


def _boundaries(ranges: NDArray[np.int32]) -> NDArray[np.int32]:
    boundaries = np.zeros(len(ranges) + 1, np.int32)
    np.cumsum(ranges[:, 1] - ranges[:, 0], out=boundaries[1:])
    return boundaries


def _all_cells(ranges: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return all cells of the ranges, in order."""
    boundaries = _boundaries(ranges)
    shifts = ranges[:, 0].astype(np.int64) - boundaries[:-1]
    return np.arange(boundaries[-1]) + np.repeat(shifts, np.diff(boundaries))


def context_parts(
    batch: _core.engine.Batch, num_ranks: int, attention: Attention
) -> list[ContextPart]:
    """Return the part of every rank."""
    split = batch.split_context(num_ranks, attention.in_integers)
    whole = batch.num_rows, batch.row_length
    return [ContextPart(split, rank, whole, attention) for rank in range(num_ranks)]
