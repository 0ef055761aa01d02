"""How near a balance by attention comes to the mean, found before the first step."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.layouts.attention import Attention
from sweephand.layouts.packed import Packed
from sweephand.source.limits import FULL_DATA_SWEEP

if TYPE_CHECKING:
    from sweephand.minibatch.planned_minibatch import PlannedMinibatch
    from sweephand.source.cursor import Cursor
    from sweephand.source.hints import Hints
    from sweephand.source.plan import Plan

NEAR_ENOUGH = 1.02
_STEPS = 4  # of which the worst counts
_MOST_LANES = 4096  # of which a place is found in a tenth of a second


@dataclass(frozen=True)
class Imbalance:
    """Costs of workers in a step, over their mean.

    Attributes
    ----------
    fullest : float
        Of the fullest worker.
    largest_unit : float
        Of the costliest sequence, or packed row, which no balance cuts.
    """

    fullest: float
    largest_unit: float


def imbalance_of(plan: Plan, size: int, step: PlannedMinibatch, workers: int) -> Imbalance:
    """Return that of a planned step of all workers, whose source has a balance by attention."""
    whole = plan.whole_request(size, crosses_sweeps=plan.crosses_sweeps)
    attention = attention_of(plan)
    costs: NDArray[np.float64] = attention.cost(step.sizes.astype(np.float64))
    planned = step.planned
    assert isinstance(planned, _core.compose.Plan)  # it is not read
    if isinstance(plan.layout, Packed):
        rows = planned.cells().reshape(-1, 4)[:, 0]
        costs = np.bincount(rows, costs, minlength=planned.num_rows).astype(np.float64)
        owners = _core.compose.row_owners(
            planned, workers, attention.in_integers, plan.layout.micro_batch_rows or 0
        )
    else:
        rule = _core.compose.fit_share_rule(plan.order, whole, planned)
        owners = _core.compose.owners(planned, workers, rule)
    mean = costs.sum() / workers
    loads = np.bincount(owners, costs, minlength=workers)
    return Imbalance(float(loads.max() / mean), float(costs.max() / mean))


def attention_of(plan: Plan) -> Attention:
    """Return the cost of attention by which shares are evened; the default for its name."""
    balance = plan.options.balance
    return balance if isinstance(balance, Attention) else Attention()


def hint_at_imbalance(cursor: Cursor, hints: Hints, size: int, workers: int) -> None:
    """Hint once at steps whose fullest worker costs more than 2 % over the mean."""
    plan = cursor.plan
    balance = plan.options.balance
    is_by_attention = balance == "attention" or (
        isinstance(balance, Attention) and not balance.per_item
    )
    can_tell = plan.shares_by_lanes or isinstance(plan.layout, Packed)
    is_small = plan.num_lanes <= _MOST_LANES and size != FULL_DATA_SWEEP
    if not (is_by_attention and can_tell and is_small):
        return
    if hints.has_seen(f"imbalance of {workers} workers"):
        return
    steps = [
        imbalance_of(plan, size, planned, workers)
        for planned in islice(plan.minibatches(cursor.position, size), _STEPS)
        if planned.num_sequences
    ]
    worst = max(steps, key=lambda step: step.fullest, default=Imbalance(1, 0))
    if worst.fullest > NEAR_ENOUGH:
        hints.give(how_near(worst, workers, size, isinstance(plan.layout, Packed)))


def how_near(worst: Imbalance, workers: int, size: int, has_rows: bool) -> str:
    """Return how near shares come to their mean, and how they come nearer."""
    unit = "packed row" if has_rows else "sequence"
    instead = (
        "" if has_rows else "; packed rows in a step of eight or more a worker come nearer"
    )
    return (
        f"with {workers} workers and minibatches of {size} samples the fullest worker costs "
        f"{worst.fullest:.3f} of the mean by balance='attention', and all wait for it: "
        f"the costliest {unit} is {worst.largest_unit:.2f} of a share, and none is cut. "
        f"Larger minibatches or fewer workers make shares more even{instead}"
    )
