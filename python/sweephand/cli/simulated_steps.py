"""Steps of a cluster, planned for real."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand._core.compose import Cost, Fitting, Packing, Plan, Planner, Request
from sweephand.cli.cluster import Cluster
from sweephand.cli.simulated_corpus import SimulatedCorpus
from sweephand.layouts.attention import Attention
from sweephand.source.source import MinibatchSource

MOST_OPEN = 1 << 24  # sequences whose lengths are looked at, of all lanes
MOST_PLANNED = 1 << 25  # of all steps

_NO_LIMIT = 2**64 - 1

Owners = Callable[[Plan, int], NDArray[np.uint32]]
"""The worker of each row or sequence of a global minibatch, for so many workers."""


@dataclass(frozen=True)
class BalancedSteps:
    """Shares of the steps under a way to share, one entry for each step.

    Attributes
    ----------
    loads : ndarray of float64, shape (steps, workers)
        Samples of each worker.
    samples, cost : ndarray of float64, shape (steps,)
        Excess of the fullest worker over the mean: 0.1 is a tenth more.
    moved : ndarray of float64, shape (steps,)
        Share of the samples that a worker gets from lanes of others.
    moved_sequences : float
        Of a worker in a step, in the mean.
    chunks : ndarray of int64, shape (workers,)
        Different chunks that each worker takes sequences from, in all steps.
    seconds : float
        Of one step, at best.
    """

    loads: NDArray[np.float64]
    samples: NDArray[np.float64]
    cost: NDArray[np.float64]
    moved: NDArray[np.float64]
    moved_sequences: float
    chunks: NDArray[np.int64]
    seconds: float


@dataclass(frozen=True)
class SimulatedSteps:
    """Steps that were planned.

    Attributes
    ----------
    scale : int
        The planner had 1 / scale of the workers, lanes and minibatch.
    first_step : int
        The first of them, from the beginning of the timeline.
    first_time : int
        Nominal time at which it begins.
    placing_seconds : float
        From the chunk table to the first minibatch.
    planning_seconds : float
        Of a global minibatch, in the mean.
    sequences : float
        Of a global minibatch, in the mean.
    longest_samples, longest_cost : float
        Excess of the longest sequence, or of the fullest row, over the mean of the workers.
    by_balance : dict of str to BalancedSteps
    """

    scale: int
    num_steps: int
    first_step: int
    first_time: int
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
    from_step: int | None = None,
) -> SimulatedSteps:
    """Plan steps of a simulated corpus, as if those before took all samples they may.

    With a row length the steps are packed rows, and longer sequences are split.

    Parameters
    ----------
    from_step : int, optional
        By default one after a third of a sweep.

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
    if from_step is None:
        from_step = core.num_samples // 3 // size
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
    planner.seek(from_step * size)
    planner.next(_whole(1))
    placing = time.process_time() - clock
    starts = np.arange(len(corpus.chunk_samples) + 1) * corpus.chunk_sequences
    return _shared(
        _Steps(timeline, planner, starts, size, workers, num_steps, attention),
        scale=scale,
        first_step=from_step,
        placing=placing,
    )


def plan_steps_of(
    source: MinibatchSource,
    cluster: Cluster,
    num_steps: int,
    attention: Attention,
    from_step: int = 0,
) -> SimulatedSteps:
    """Plan the very steps that a run over a source takes.

    Shares, loads and chunks are those of as many processes. ValueError if the source ends
    before.
    """
    plan = source.timeline
    planner = plan.make_planner()
    for _ in range(from_step):
        planner.next(_whole(cluster.size))
    begin = planner.time
    clock = time.process_time()
    placed = plan.make_planner()
    placed.seek(begin)
    placed.next(_whole(1))
    placing = time.process_time() - clock
    starts = np.append(0, np.cumsum(source.chunk_sequences, dtype=np.int64))
    return _shared(
        _Steps(
            plan.order, planner, starts, cluster.size, cluster.workers, num_steps, attention
        ),
        first_step=from_step,
        placing=placing,
    )


@dataclass(frozen=True)
class _Steps:
    """Steps to plan.

    Attributes
    ----------
    planner : Planner
        At the first of them.
    chunk_starts : ndarray of int64, shape (chunks + 1,)
        The first sequence of every chunk, and the end.
    """

    timeline: _core.order.Timeline
    planner: Planner
    chunk_starts: NDArray[np.int64]
    size: int
    workers: int
    num_steps: int
    attention: Attention


def _whole(size: int, balance: Cost | None = None) -> Request:
    return Request(size, 1, 0, crosses_sweeps=True, balance=balance)


def _shared(
    steps: _Steps, *, scale: int = 1, first_step: int, placing: float
) -> SimulatedSteps:
    clock = time.process_time()
    plans = [steps.planner.next(_whole(steps.size)) for _ in range(steps.num_steps)]
    planning = (time.process_time() - clock) / steps.num_steps
    plans = [plan for plan in plans if not plan.end_of_data]
    if not plans:
        raise ValueError(f"the data end before step {first_step}; give a smaller --from-step")
    amounts = [_amounts(plan, steps.attention) for plan in plans]
    ways = _row_owners(steps) if plans[0].row_length else _sequence_owners(steps)
    return SimulatedSteps(
        scale=scale,
        num_steps=len(plans),
        first_step=first_step,
        first_time=plans[0].nominal_time,
        placing_seconds=placing,
        planning_seconds=planning,
        sequences=float(np.mean([plan.num_sequences for plan in plans])),
        longest_samples=_longest([sizes for sizes, _ in amounts], steps.workers),
        longest_cost=_longest([costs for _, costs in amounts], steps.workers),
        by_balance={
            name: _share(steps, plans, amounts, way, ways["lanes"])
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


def _sequence_owners(steps: _Steps) -> dict[str, Owners]:
    """Return each way to share sequences, as the planner of whole sequences has it."""

    def owners(balance: Cost | None) -> Owners:
        request = _whole(steps.size, balance)

        def of(plan: Plan, workers: int) -> NDArray[np.uint32]:
            rule = _core.compose.fit_share_rule(steps.timeline, request, plan)
            return _core.compose.owners(plan, workers, rule)

        return of

    return {
        "lanes": owners(None),
        "samples": owners(Cost(1, is_quadratic=False)),
        "attention": owners(steps.attention.in_integers),
    }


def _row_owners(steps: _Steps) -> dict[str, Owners]:
    """Return each way to share packed rows, whose samples are even."""
    cost, of = steps.attention.in_integers, _core.compose.row_owners
    return {
        "lanes": lambda plan, workers: np.arange(plan.num_rows, dtype=np.uint32) % workers,
        "attention": lambda plan, workers: of(plan, workers, cost, 0),
        "micro-batches": lambda plan, workers: of(plan, workers, cost, 1),
    }


def _share(
    steps: _Steps,
    plans: list[Plan],
    amounts: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
    way: Owners,
    by_lanes: Owners,
) -> BalancedSteps:
    loads, in_cost, moved, sequences, seconds = [], [], [], [], []
    reads = []  # pairs of a worker and a chunk, as numbers
    workers, num_chunks = steps.workers, len(steps.chunk_starts) - 1
    for plan, (sizes, costs) in zip(plans, amounts, strict=True):
        clock = time.process_time()
        owners = way(plan, workers)
        seconds.append(time.process_time() - clock)
        of_lanes = by_lanes(plan, workers)
        loads.append(np.bincount(owners, sizes, workers))
        in_cost.append(_excess(np.bincount(owners, costs, workers)))
        moved.append(float(sizes[owners != of_lanes].sum() / sizes.sum()))
        sequences.append(np.count_nonzero(owners != of_lanes) / workers)
        rows = plan.cells().reshape(-1, 4)[:, 0] if plan.row_length else slice(None)
        chunks = np.searchsorted(steps.chunk_starts, plan.sequences(), side="right") - 1
        reads.append(np.unique(owners[rows].astype(np.int64) * num_chunks + chunks))
    taken = np.unique(np.concatenate(reads)) // num_chunks
    return BalancedSteps(
        np.array(loads),
        np.array([_excess(one) for one in loads]),
        np.array(in_cost),
        np.array(moved),
        float(np.mean(sequences)),
        np.bincount(taken, minlength=workers),
        min(seconds),
    )


def _longest(amounts: list[NDArray[np.float64]], workers: int) -> float:
    return float(np.mean([_excess(one, one.sum() / workers) for one in amounts]))


def _excess(loads: NDArray[Any], mean: float | None = None) -> float:
    """Return by how much the largest exceeds the mean, as a part of it."""
    return float(loads.max() / (loads.mean() if mean is None else mean) - 1)
