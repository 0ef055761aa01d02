"""A sweep planned step by step, without reading any of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.planned import PlannedMinibatch
from sweephand.source import MinibatchSource

Shares = tuple[PlannedMinibatch, ...]
"""What every worker will get of one minibatch."""


@dataclass(frozen=True)
class DryRun:
    """What every step will hold, one entry each.

    Attributes
    ----------
    samples, sequences : ndarray of int64, shape (steps,)
        Over all workers.
    cells : ndarray of int64, shape (steps,)
        Of a grid with a row per sequence, each worker's as wide as its longest one.
    shares : ndarray of int64, shape (steps, workers)
        Samples that each worker gets.
    has_equal_sequences : bool
        All sequences have the same size.
    """

    samples: NDArray[np.int64]
    sequences: NDArray[np.int64]
    cells: NDArray[np.int64]
    shares: NDArray[np.int64]
    has_equal_sequences: bool

    @property
    def num_steps(self) -> int:
        """Steps that were planned."""
        return len(self.samples)

    @property
    def imbalance(self) -> NDArray[np.float64]:
        """Of every step, by how much the fullest share exceeds the mean one."""
        means: NDArray[np.float64] = self.shares.mean(axis=1)
        over: NDArray[np.float64] = self.shares.max(axis=1) / means - 1
        return over

    def facts(self, size: int) -> dict[str, object]:
        """Return the figures as JSON types; `size` is the minibatch size that was asked for."""
        facts: dict[str, object] = {
            "steps": self.num_steps,
            "samples_per_step": _spread(self.samples),
            "sequences_per_step": _spread(self.sequences),
            "fill": float(self.samples.mean() / size),
            "padding": {
                "ragged": _padding(self.samples, self.samples),
                "padded": _padding(self.samples, self.cells),
            },
        }
        if self.shares.shape[1] > 1:
            facts["share_samples"] = _spread(self.shares)
            facts["share_imbalance"] = _spread(self.imbalance)
            facts["empty_shares"] = int((self.shares == 0).sum())
        return facts


def plan_shares(source: MinibatchSource, size: int, workers: int) -> Iterator[Shares]:
    """Plan step after step for all workers."""
    plans = [
        source.plan(size, num_data_partitions=workers, partition_index=rank)
        for rank in range(workers)
    ]
    return zip(*plans, strict=True)


def dry_run(steps: Iterator[Shares], multiple_of: int) -> DryRun:
    """Count what planned steps hold; padded widths are rounded up to `multiple_of`."""
    samples, sequences, cells, shares = [], [], [], []
    extremes: set[int] = set()
    for step in steps:
        samples.append(step[0].global_num_samples)
        sequences.append(sum(share.num_sequences for share in step))
        shares.append([share.num_samples for share in step])
        held = [share.sizes for share in step if share.num_sequences]
        cells.append(sum(_cells(sizes, multiple_of) for sizes in held))
        extremes.update(int(size) for sizes in held for size in (sizes.min(), sizes.max()))
    return DryRun(
        samples=np.array(samples),
        sequences=np.array(sequences),
        cells=np.array(cells),
        shares=np.array(shares),
        has_equal_sequences=len(extremes) == 1,
    )


def _cells(sizes: NDArray[np.uint32], multiple_of: int) -> int:
    width = -(-int(sizes.max()) // multiple_of) * multiple_of
    return len(sizes) * width


def _spread(numbers: NDArray[Any]) -> dict[str, float]:
    return {
        "min": numbers.min().item(),
        "mean": float(numbers.mean()),
        "max": numbers.max().item(),
    }


def _padding(samples: NDArray[np.int64], cells: NDArray[np.int64]) -> dict[str, float]:
    return {
        "cells_per_step": float(cells.mean()),
        "waste": float(1 - samples.sum() / cells.sum()),
    }
