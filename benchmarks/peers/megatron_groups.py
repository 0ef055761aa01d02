"""Sequences dealt to ranks beside Megatron-Core's scheduler: balance, waiting, and planning.

    pip install sweephand megatron-core torch
    python -m benchmarks.peers.megatron_groups [RANKS...]

Lengths are those of Megatron's mock data: log-normal, 128 to 8,192 tokens, 1,024 on average.
Ours are `Packed` rows with `balance="attention"`; theirs are the groups that
`BalancedCPScheduler` makes of the same sequences of each step. A sequence that several ranks
share costs each of them its part. Ranks wait for each other at the end of a step, or at every
micro-batch.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import sweephand as sh

ROW, ROWS, STEPS = 8192, 8, 20
COST = sh.Attention()
Costs = NDArray[np.float64]  # of a step: (micro-batches, ranks)


@dataclass(frozen=True)
class Group:
    """The ranks, in place of a process group."""

    ranks: int

    def size(self) -> int:
        """Return how many there are."""
        return self.ranks


def make_source() -> sh.MinibatchSource:
    """Return a source of such lengths."""
    rng = np.random.default_rng(0)
    drawn = rng.lognormal(np.log(1024) - 1.5**2 / 2, 1.5, 200_000)
    lengths = np.clip(drawn, 128, ROW).astype(np.int64)
    starts = np.concatenate([[0], lengths.cumsum()])
    layout = sh.Packed(ROW, micro_batch_rows=1)
    ids = {"ids": (np.zeros(starts[-1], np.int16), starts)}
    return sh.MinibatchSource(ids, layout=layout, balance="attention")


def cost(lengths: NDArray[np.int64]) -> float:
    """Return what sequences cost together."""
    return float(COST.cost(lengths.astype(float)).sum())


def theirs(lengths: NDArray[np.int64], ranks: int) -> Costs:
    """Return the costs of the groups that Megatron makes."""
    from megatron.core.pipeline_parallel.hybrid_cp_schedule import BalancedCPScheduler

    scheduler = BalancedCPScheduler(ROW, Group(ranks))
    groups = scheduler.get_groups_and_subsamples(list(enumerate(lengths.tolist())), None)[1]
    found = np.zeros((len(groups), ranks))
    for number, group in enumerate(groups):
        given = np.bincount([one for own in group for one in own], minlength=len(lengths))
        for rank, own in enumerate(group):
            parts = [cost(lengths[one : one + 1]) / given[one] for one in own]
            found[number, rank] = sum(parts)
    return found


def report(name: str, steps: list[Costs], seconds: list[float]) -> None:
    """Print the balance of steps, and the milliseconds that planning one takes."""
    ends = [costs.sum(0).max() / costs.sum(0).mean() for costs in steps]
    each = [costs.max(1).sum() / costs.sum(0).mean() for costs in steps]
    count = np.mean([len(costs) for costs in steps])
    print(
        f"  {name:8} fullest rank {np.mean(ends):.3f}, at worst {max(ends):.3f};"
        f" waiting at every micro-batch {np.mean(each):.3f}; {count:.1f} micro-batches;"
        f" {1e3 * np.mean(seconds):.1f} ms, at most {1e3 * max(seconds):.1f}"
    )


def main(ranks: int) -> None:
    """Compare over some steps."""
    size = ranks * ROWS * ROW
    ours, others, took, took_by_others = [], [], [], []
    theirs(np.full(ranks, ROW), ranks)  # it imports and compiles what it needs
    with make_source() as source:
        plans = source.plan(size, num_data_partitions=ranks, partition_index=0)
        for _ in range(STEPS):
            begin = time.perf_counter()
            next(plans)
            took.append(time.perf_counter() - begin)
        time_of_step = 0
        for _ in range(STEPS):
            lengths, costs = [], []
            for rank in range(ranks):
                source.current_position = time_of_step
                share = source.next_minibatch(size, None, None, ranks, rank)
                rows = [micro["ids"].lengths for micro in share.micro_batches()]
                costs.append([cost(row) for row in rows])
                lengths += rows
            time_of_step = source.current_position
            ours.append(np.array(costs).T)
            begin = time.perf_counter()
            others.append(theirs(np.concatenate(lengths), ranks))
            took_by_others.append(time.perf_counter() - begin)
    print(f"{ranks} ranks, {ROWS} rows of {ROW} each, {STEPS} steps")
    report("ours", ours, took)
    report("Megatron", others, took_by_others)


if __name__ == "__main__":
    for given in sys.argv[1:] or ["8", "32"]:
        main(int(given))
