"""Loss masks of sequences as runs of samples, from which labels are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import offsets_of, ranges


@dataclass(frozen=True)
class LossMasks:
    """Samples of every sequence that a loss is taken on."""

    offsets: NDArray[np.int64]  # where the runs of each sequence begin in `bounds`, and the end
    # of each run the first sample, and the one after its last, as the sequence counts
    bounds: NDArray[np.uint32]

    @classmethod
    def of(cls, mask: NDArray[Any], offsets: NDArray[np.integer]) -> Self:
        """Return the runs in which a mask is not 0.

        Parameters
        ----------
        mask : ndarray, shape (samples,)
        offsets : ndarray of int, shape (sequences + 1,)
            Where each sequence begins, and the end.

        Examples
        --------
        >>> LossMasks.of(np.array([0, 1, 1, 1, 0]), np.array([0, 2, 5])).bounds
        array([1, 2, 0, 2], dtype=uint32)
        """
        lengths = np.diff(offsets)
        # A zero after each sequence ends its last run.
        places = np.arange(len(mask)) + np.repeat(np.arange(len(lengths)), lengths)
        is_on = np.zeros(len(mask) + len(lengths), np.int8)
        is_on[places] = np.asarray(mask) != 0
        edges = np.diff(is_on, prepend=np.int8(0))
        first, behind = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        begins = offsets_of(lengths + 1)
        sequences = np.searchsorted(begins, first, side="right") - 1
        bounds = np.stack([first, behind], axis=1) - begins[sequences][:, None]
        counts = 2 * np.bincount(sequences, minlength=len(lengths))
        return cls(offsets_of(counts), bounds.reshape(-1).astype(np.uint32))

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many bounds each sequence has: int64, shape (sequences,)."""
        return np.diff(self.offsets)

    def take(self, sequences: NDArray[np.integer]) -> LossMasks:
        """Return the masks of the given sequences, in the order of their numbers."""
        bounds = self.bounds[ranges(self.offsets, sequences)]
        return LossMasks(offsets_of(self.counts[sequences]), bounds)


def concat_masks(parts: Sequence[LossMasks]) -> LossMasks:
    """Return the concatenated masks of the parts."""
    counts = np.concatenate([part.counts for part in parts])
    return LossMasks(offsets_of(counts), np.concatenate([part.bounds for part in parts]))
