"""Who gets what of a planned minibatch: docs/order.md, section 7, and docs/layouts.md."""

from __future__ import annotations

from collections.abc import Sequence

from tests import model
from tests.combinations.combination import Combination
from tests.combinations.plans import PlannedMinibatch
from tests.combinations.units import Unit
from tests.model_micro_batches import micro_batches

import sweephand as sh

EMPTY = Unit(-1, ())


def has_one_sample_each(combination: Combination) -> bool:
    """All sequences have one sample, so that shares are even in number."""
    return all(made.size == 1 for corpus in combination.made for made in corpus.all)


def shares(
    combination: Combination, planned: PlannedMinibatch, workers: int
) -> list[list[Unit]]:
    """The sequences or rows of every worker."""
    units, layout = list(planned.units), combination.layout
    settings, balance = combination.order, combination.balance
    costs = [_cost(unit, balance) for unit in units]
    if isinstance(layout, sh.Packed):
        return _rows_of_workers(units, costs, workers, layout.micro_batch_rows, balance)
    if isinstance(layout, sh.TruncatedBPTT):
        return _rows_of_workers(units, costs, workers, None, balance)
    if isinstance(layout, sh.Bucketed):
        if balance is not None:
            return _dealt(units, model.deal_costs(costs, workers), workers)
        if not settings.randomize:
            return [units[worker::workers] for worker in range(workers)]
        return _even(combination, planned, workers)
    if not settings.randomize:
        return [units[worker::workers] for worker in range(workers)]
    if has_one_sample_each(combination):
        return _even(combination, planned, workers)
    owners = [unit.lane % workers for unit in units]
    if balance is not None:
        owners = model.even_costs(owners, costs, workers)
    return _dealt(units, owners, workers)


def _even(
    combination: Combination, planned: PlannedMinibatch, workers: int
) -> list[list[Unit]]:
    settings = combination.order
    lanes = [unit.lane for unit in planned.units]
    corpus = combination.made[0].model
    # A mixture has one sweep, of 2^62 samples: nobody comes to the middle of it.
    first_half = combination.is_mixture or model.is_first_half(corpus, settings, planned.time)
    owners = model.even_counts(lanes, workers, settings.num_lanes, first_half)
    return _dealt(planned.units, owners, workers)


def _cost(unit: Unit, balance: str | None) -> int:
    return sum(model.cost(piece.size, balance or "samples") for piece in unit.pieces)


def _dealt(units: Sequence[Unit], owners: Sequence[int], workers: int) -> list[list[Unit]]:
    return [
        [unit for unit, owner in zip(units, owners, strict=True) if owner == worker]
        for worker in range(workers)
    ]


def _rows_of_workers(
    rows: list[Unit],
    costs: list[int],
    workers: int,
    micro_batch_rows: int | None,
    balance: str | None,
) -> list[list[Unit]]:
    if balance is not None and micro_batch_rows is not None:
        return [
            [EMPTY if row is None else rows[row] for batch in batches for row in batch]
            for batches in (
                micro_batches(costs, workers, rank, micro_batch_rows) for rank in range(workers)
            )
        ]
    group = micro_batch_rows or 1
    wanted = -(-len(rows) // (workers * group)) * group
    dealt = [rows[worker::workers] for worker in range(workers)]
    if balance is not None:
        dealt = _dealt(rows, model.deal_costs(costs, workers), workers)
    return [mine + [EMPTY] * (wanted - len(mine)) for mine in dealt]
