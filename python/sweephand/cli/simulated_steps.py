"""Steps of a cluster, planned for real."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand._core.compose import (
    Cost,
    Fitting,
    Packing,
    Plan,
    Planner,
    Request,
    ShareRule,
    Sharing,
)
from sweephand.cli.cluster import Cluster
from sweephand.cli.simulated_corpus import SimulatedCorpus
from sweephand.layouts.attention import Attention

MOST_OPEN = 1 << 24  # sequences whose lengths are looked at, of all lanes
MOST_PLANNED = 1 << 25  # of all steps

_NO_LIMIT = 2**64 - 1

Owners = Callable[[Plan, int], NDArray[np.uint32]]
"""The worker of each row or sequence of a global minibatch, for so many workers."""


@dataclass(frozen=True)
class BalancedSteps:
    """Balance of the steps under a way to share, one entry each.

    Attributes
    ----------
    samples, cost : ndarray of float64
        By how much the fullest worker exceeds the mean.
    moved : ndarray of float64
        Share of the samples that a worker gets from lanes of others.
    moved_sequences : float
        Of a worker in a step, in the mean.
    seconds : float
        Of one step, at best.
    """

    samples: NDArray[np.float64]
    cost: NDArray[np.float64]
    moved: NDArray[np.float64]
    moved_sequences: float
    seconds: float


@dataclass(frozen=True)
class SimulatedSteps:
    """Steps that were planned.

    Attributes
    ----------
    scale : int
        The planner had 1 / scale of the workers, lanes and minibatch.
    placing_seconds : float
        From the chunk table to the first minibatch.
    planning_seconds : float
        Of a global minibatch, in the mean.
    sequences : float
        Of a global minibatch, in the mean.
    longest_samples, longest_cost : float
        By how much the longest sequence, or the fullest row, alone exceeds the mean of the
        workers.
    by_balance : dict of str to BalancedSteps
    """

    scale: int
    num_steps: int
    placing_seconds: float
    planning_seconds: float
    sequences: float
    longest_samples: float
    longest_cost: float
    by_balance: dict[str, BalancedSteps]


def plan_steps(
    corpus: SimulatedCorpus,
    cluster: Cluster,
    num_steps: int,
    attention: Attention,
    seed: int,
    row_length: int | None = None,
) -> SimulatedSteps:
    """Place a planner in the middle of a sweep, and plan steps from there.

    With a row length the steps are packed rows, and longer sequences are split.

    Raises
    ------
    ValueError
        If so many samples are too many to be planned here, even at a smaller scale.
    """
    planned = cluster.size / float(corpus.tile.mean()) * num_steps
    is_open = cluster.lanes * cluster.block_chunks * corpus.chunk_sequences
    scale = 1
    while scale < cluster.workers and (
        is_open > MOST_OPEN * scale or planned > MOST_PLANNED * scale
    ):
        scale *= 2
    scale = min(scale, cluster.workers)
    if max(is_open / MOST_OPEN, planned / MOST_PLANNED) > scale:
        raise ValueError(
            f"steps of {cluster.size} samples for {cluster.workers} workers are too many to "
            "plan here; give fewer --steps, a smaller --size or more --chunks"
        )
    workers, lanes = cluster.workers // scale, max(1, cluster.lanes // scale)
    size = max(1, cluster.size // scale)
    core = corpus.core()
    order = _core.order.OrderSettings(
        seed=seed,
        num_lanes=lanes,
        window_chunks=cluster.block_chunks * lanes,
        window_samples=0,
        randomize=True,
    )
    clock = time.process_time()
    timeline = _core.order.SweepTimeline(core, order)
    planner = (
        Planner(timeline, Fitting(), _NO_LIMIT)
        if row_length is None
        else Planner(timeline, Packing(row_length, 64, True, False, 0), _NO_LIMIT)
    )
    planner.seek(core.num_samples // 3)
    planner.next(Request(1, 1, 0, crosses_sweeps=True, balance=None))
    placing = time.process_time() - clock
    request = Request(size, 1, 0, crosses_sweeps=True, balance=None)
    clock = time.process_time()
    plans = [planner.next(request) for _ in range(num_steps)]
    planning = (time.process_time() - clock) / num_steps
    amounts = [_amounts(plan, attention) for plan in plans]
    ways = _sequence_owners(attention) if row_length is None else _row_owners(attention)
    return SimulatedSteps(
        scale=scale,
        num_steps=num_steps,
        placing_seconds=placing,
        planning_seconds=planning,
        sequences=float(np.mean([plan.num_sequences for plan in plans])),
        longest_samples=_longest([sizes for sizes, _ in amounts], workers),
        longest_cost=_longest([costs for _, costs in amounts], workers),
        by_balance={
            name: _share(plans, amounts, workers, way, ways["lanes"])
            for name, way in ways.items()
        },
    )


def _amounts(
    plan: Plan, attention: Attention
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return samples and cost of each sequence, or of each row where there are rows."""
    sizes = plan.sizes().astype(np.float64)
    costs = attention.cost(sizes)
    if not plan.row_length:
        return sizes, costs
    rows = plan.cells().reshape(-1, 4)[:, 0]
    of_rows = [np.zeros(plan.num_rows), np.zeros(plan.num_rows)]
    for of_row, amounts in zip(of_rows, (sizes, costs), strict=True):
        np.add.at(of_row, rows, amounts)
    return of_rows[0], of_rows[1]


def _sequence_owners(attention: Attention) -> dict[str, Owners]:
    """Return each way to share sequences."""
    samples = Cost(1, is_quadratic=False)

    def owners(sharing: Sharing, cost: Cost) -> Owners:
        rule = ShareRule(sharing, cost, num_lanes=0, first_half=False)
        return lambda plan, workers: _core.compose.owners(plan, workers, rule)

    return {
        "lanes": owners(Sharing.LANES, samples),
        "samples": owners(Sharing.EVEN_COSTS, samples),
        "attention": owners(Sharing.EVEN_COSTS, attention.in_integers),
    }


def _row_owners(attention: Attention) -> dict[str, Owners]:
    """Return each way to share packed rows, whose samples are even."""
    cost, of = attention.in_integers, _core.compose.row_owners
    return {
        "lanes": lambda plan, workers: np.arange(plan.num_rows, dtype=np.uint32) % workers,
        "attention": lambda plan, workers: of(plan, workers, cost, 0),
        "micro-batches": lambda plan, workers: of(plan, workers, cost, 1),
    }


def _share(
    plans: list[Plan],
    amounts: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
    workers: int,
    way: Owners,
    by_lanes: Owners,
) -> BalancedSteps:
    in_samples, in_cost, moved, sequences, seconds = [], [], [], [], []
    for plan, (sizes, costs) in zip(plans, amounts, strict=True):
        clock = time.process_time()
        owners = way(plan, workers)
        seconds.append(time.process_time() - clock)
        of_lanes = by_lanes(plan, workers)
        in_samples.append(_over_mean(owners, sizes, workers))
        in_cost.append(_over_mean(owners, costs, workers))
        moved.append(float(sizes[owners != of_lanes].sum() / sizes.sum()))
        sequences.append(np.count_nonzero(owners != of_lanes) / workers)
    return BalancedSteps(
        np.array(in_samples),
        np.array(in_cost),
        np.array(moved),
        float(np.mean(sequences)),
        min(seconds),
    )


def _longest(amounts: list[NDArray[np.float64]], workers: int) -> float:
    return float(np.mean([one.max() * workers / one.sum() - 1 for one in amounts]))


def _over_mean(owners: NDArray[np.uint32], amounts: NDArray[np.float64], workers: int) -> float:
    loads = np.bincount(owners, amounts, workers)
    return float(loads.max() / loads.mean() - 1)
