"""A sweep planned step by step, without reading any of it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.layouts.attention import Attention
from sweephand.source.source import MinibatchSource
from sweephand.terminal.screen import Screen


@dataclass(frozen=True)
class DryRun:
    """Contents of every planned step, one entry each."""

    # over all workers
    samples: NDArray[np.int64]
    sequences: NDArray[np.int64]
    # rows and columns of each worker's dense array; in layouts of whole sequences a row per
    # sequence, as wide as the worker's longest one
    grids: NDArray[np.int64]
    shares: NDArray[np.int64]  # samples that each worker gets
    # what the sequences of each cost by attention, in samples of short ones
    costs: NDArray[np.float64]
    has_equal_sequences: bool  # all sequences have the same size
    longest: int  # samples of the longest sequence

    @property
    def num_steps(self) -> int:
        """Steps that were planned."""
        return len(self.samples)

    @property
    def cells(self) -> NDArray[np.int64]:
        """Cells of each worker's dense array: int64, shape (steps, workers)."""
        cells: NDArray[np.int64] = self.grids.prod(axis=2)
        return cells

    @property
    def imbalance(self) -> NDArray[np.float64]:
        """The excess of the fullest share over the mean share, for every step."""
        return over_mean(self.shares)

    def facts(self, size: int) -> dict[str, object]:
        """Return the figures as JSON types; `size` is the minibatch size that was asked for."""
        facts: dict[str, object] = {
            "steps": self.num_steps,
            "samples_per_step": _spread(self.samples),
            "sequences_per_step": _spread(self.sequences),
            "fill": float(self.samples.mean() / size),
        }
        if self.shares.shape[1] > 1:
            facts["share_samples"] = _spread(self.shares)
            facts["share_imbalance"] = _spread(self.imbalance)
            facts["share_cost_imbalance"] = _spread(over_mean(self.costs))
            longest = Attention().cost(float(self.longest))
            facts["longest_cost_of_share"] = longest / float(self.costs.mean())
            facts["empty_shares"] = int((self.shares == 0).sum())
        return facts


def plan_sweep(
    source: MinibatchSource, size: int, arguments: argparse.Namespace, screen: Screen
) -> DryRun:
    """Plan a sweep, or its first ``--steps``, while a progress bar is shown."""
    total, workers = source.num_samples_per_sweep, arguments.workers
    if arguments.steps:
        total = min(total, size * arguments.steps)
    plans = [
        source.plan(size, num_data_partitions=workers, partition_index=rank)
        for rank in range(workers)
    ]
    samples, sequences, grids, shares, costs = [], [], [], [], []
    cost = Attention().cost
    extremes: set[int] = set()
    with screen.progress("plan", total) as advance:
        for step in islice(zip(*plans, strict=True), arguments.steps):
            samples.append(step[0].global_num_samples)
            sequences.append(sum(share.num_sequences for share in step))
            shares.append([share.num_samples for share in step])
            costs.append([cost(share.sizes.astype(np.float64)).sum() for share in step])
            held = [share.sizes for share in step if share.num_sequences]
            grids.append(
                [share.shape or _padded(share.sizes, arguments.multiple_of) for share in step]
            )
            extremes.update(int(size) for sizes in held for size in (sizes.min(), sizes.max()))
            advance(samples[-1])
    return DryRun(
        samples=np.array(samples),
        sequences=np.array(sequences),
        grids=np.array(grids, np.int64),
        shares=np.array(shares),
        costs=np.array(costs),
        has_equal_sequences=len(extremes) == 1,
        longest=max(extremes, default=0),
    )


def over_mean(of_workers: NDArray[Any]) -> NDArray[np.float64]:
    """Return of every step by how much the largest number of a worker exceeds the mean."""
    over: NDArray[np.float64] = of_workers.max(axis=1) / of_workers.mean(axis=1) - 1
    return over


def _padded(sizes: NDArray[np.uint32], multiple_of: int) -> tuple[int, int]:
    """Return the shape of a grid with a row per sequence."""
    return len(sizes), -(-int(sizes.max(initial=0)) // multiple_of) * multiple_of


def _spread(numbers: NDArray[Any]) -> dict[str, float]:
    return {
        "min": numbers.min().item(),
        "mean": float(numbers.mean()),
        "max": numbers.max().item(),
    }
