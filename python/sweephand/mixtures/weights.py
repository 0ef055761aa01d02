"""Weights of the corpora of a mixture, over nominal time: docs/order.md, "Mixtures"."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from numbers import Rational, Real

import numpy as np

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.corpus import ShareChange
from sweephand.errors import shown

Weight = int | float | Fraction
Weights = Mapping[str, Weight] | Sequence[tuple[int, Mapping[str, Weight]]]

WHOLE = 2**32
_LONGEST = 2**46  # from one knot to the next
_MAX_TIME = 2**63 - 1
_WEIGHTS_ARE = (
    "weights are a dict such as {'web': 7, 'code': 3}, or a list of (nominal time, such a dict)"
)


@dataclass(frozen=True)
class Leg:
    """Shares that change evenly, from a nominal time to the next leg."""

    begin: int  # nominal time in samples
    # The share of every corpus at the beginning, and when `span` samples have passed, in units
    # of 2^-32; they sum to 2^32. The last leg goes on, and does not change.
    first: tuple[int, ...]
    last: tuple[int, ...]
    span: int  # the next leg may begin before all of it has passed


def legs_of(weights: object, names: Sequence[str]) -> list[Leg]:
    """Return the legs of weights as a user gives them.

    TypeError or ValueError if they are no weights, naming the corpus and the time.
    """
    if isinstance(weights, str) or not isinstance(weights, Mapping | Sequence):
        raise TypeError(f"{_WEIGHTS_ARE}; got {shown(weights)}")
    knots = [(0, weights)] if isinstance(weights, Mapping) else list(weights)
    if not knots:
        raise ValueError("weights must name at least one time, got an empty list")
    times, shares = [], []
    for knot in knots:
        time, given = _knot_of(knot)
        times.append(time)
        shares.append(shares_of([_weight(given, name, time) for name in names], time))
        _refuse_unknown(given, names)
    for before, behind in pairwise(times):
        if not before < behind:
            raise ValueError(f"the times of weights must ascend, got {behind} behind {before}")
        if behind - before > _LONGEST:
            raise ValueError(
                f"weights at {before} and {behind} are more than 2^46 samples apart; give some "
                "in between"
            )
    legs = [
        Leg(begin, first, last, end - begin)
        for (begin, end), (first, last) in zip(pairwise(times), pairwise(shares), strict=True)
    ]
    legs.append(Leg(times[-1], shares[-1], shares[-1], 0))
    if times[0] > 0:
        legs.insert(0, Leg(0, shares[0], shares[0], times[0]))
    return legs


def shares_of(weights: Sequence[Fraction], time: int) -> tuple[int, ...]:
    """Return weights as shares in units of 2^-32.

    ValueError if all are 0, or one is too small beside the others.
    """
    if not any(weights):
        raise ValueError(f"all weights at nominal time {time} are 0; one must be positive")
    shares = units_of(weights)
    for number, (weight, share) in enumerate(zip(weights, shares, strict=True)):
        if weight and not share:
            raise ValueError(
                f"weight {number} at nominal time {time} is less than 2^-32 of the sum; give 0"
            )
    return shares


def units_of(weights: Sequence[Fraction]) -> tuple[int, ...]:
    """Return weights in units of 2^-32 of their sum, such that they sum to 2^32."""
    total = sum(weights)
    ends = [math.floor(WHOLE * sum_ / total) for sum_ in accumulate(weights)]
    return tuple(end - begin for begin, end in pairwise([0, *ends]))


@dataclass(frozen=True)
class Dropped:
    """Legs in which corpora drop out at their ends, and the rest takes over."""

    legs: list[Leg]
    times: dict[int, int]  # nominal time at which corpora drop out, by number


def drop_out(
    legs: Sequence[Leg], ends: Sequence[int], earlier: Mapping[int, int] | None = None
) -> Dropped:
    """Return the legs where a corpus drops out at its end, and the rest takes over."""
    legs, times = list(legs), dict(earlier or {})
    left = set(range(len(ends))) - times.keys()
    while len(left) > 1:
        rates = rates_of(legs)
        reached = {number: rates[number].reached(ends[number]) for number in left}
        time = min(reached.values())
        if time > _MAX_TIME:
            break
        times |= {number: time for number in left if reached[number] == time}
        left -= times.keys()
        legs = _without(legs, left, time)
    return Dropped(legs, times)


def drop_later(before: Dropped, legs: Sequence[Leg], time: int, ends: Sequence[int]) -> Dropped:
    """Return the same with other legs from a time on: corpora that dropped out stay out."""
    times = {number: at for number, at in before.times.items() if at <= time}
    left = set(range(len(ends))) - times.keys()
    return drop_out(_joined(before.legs, legs, left, time), ends, times)


def changed(legs: Sequence[Leg], names: Sequence[str], change: ShareChange) -> list[Leg]:
    """Return the legs with changed shares from a time on.

    TypeError or ValueError if the weights are invalid.
    """
    later = legs_of(change.weights, names)
    return _joined(legs, later, set(range(len(names))), change.time)


def _joined(
    before: Sequence[Leg], later: Sequence[Leg], left: set[int], time: int
) -> list[Leg]:
    """Return legs up to a time, and the later legs of the remaining corpora from there on."""
    found = [leg for leg in before if leg.begin < time]
    found += [leg for leg in _without(later, left, time) if leg.begin >= time]
    return found or list(before)


def _without(legs: Sequence[Leg], left: set[int], time: int) -> list[Leg]:
    """Return legs in which only the corpora of `left` have a share from a time on."""
    if not left:
        return list(legs)
    found = [leg for leg in legs if leg.begin < time]
    for leg, end in zip(legs, [*(leg.begin for leg in legs[1:]), None], strict=True):
        if end is not None and end <= time:
            continue
        begin = max(leg.begin, time)
        first = _scaled(_shares(leg, begin), left)
        last = first if end is None else _scaled(_shares(leg, end), left)
        # If no remaining corpus has a share, the weights of the other end hold, if any.
        first, last = first or last, last or first
        none = (0,) * len(leg.first)
        found.append(Leg(begin, first or none, last or none, 0 if end is None else end - begin))
    return found


def _shares(leg: Leg, time: int) -> list[Fraction]:
    """Return the shares within a leg."""
    if leg.first == leg.last:
        return [Fraction(n) for n in leg.first]
    part = Fraction(time - leg.begin, leg.span)
    return [n + (m - n) * part for n, m in zip(leg.first, leg.last, strict=True)]


def _scaled(shares: Sequence[Fraction], left: set[int]) -> tuple[int, ...] | None:
    """Return the shares of those who are left, scaled to the whole; None if they have none."""
    kept = [share if n in left else Fraction(0) for n, share in enumerate(shares)]
    return units_of(kept) if any(kept) else None


def rates_of(legs: Sequence[Leg]) -> list[_core.order.Rate]:
    """Return how fast a mixture goes through each of its corpora."""
    begins = np.array([leg.begin for leg in legs], np.uint64)
    firsts = np.array([leg.first for leg in legs], np.uint64)
    lasts = np.array([leg.last for leg in legs], np.uint64)
    spans = np.array([leg.span for leg in legs], np.uint64)
    return [
        _core.order.Rate(begins, firsts[:, number].copy(), lasts[:, number].copy(), spans)
        for number in range(firsts.shape[1])
    ]


def share_at(legs: Sequence[Leg], time: int) -> list[float]:
    """Return the share of every corpus at a nominal time."""
    leg = next(leg for leg in reversed(legs) if leg.begin <= time)
    return [float(share) / WHOLE for share in _shares(leg, time)]


def _knot_of(knot: object) -> tuple[int, Mapping[str, object]]:
    if not isinstance(knot, Sequence) or isinstance(knot, str) or len(knot) != 2:
        raise TypeError(f"{_WEIGHTS_ARE}; got {shown(knot)}")
    time, weights = knot
    check_int("the time of weights", time, 0, _MAX_TIME)
    if not isinstance(weights, Mapping):
        raise TypeError(f"the weights at {time} must be a dict by name, got {shown(weights)}")
    return int(time), weights


def _weight(weights: Mapping[str, object], name: str, time: int) -> Fraction:
    if name not in weights:
        raise ValueError(
            f"the weights at nominal time {time} have none for {name!r}; 0 leaves it out"
        )
    weight = weights[name]
    subject = f"the weight of {name!r} at nominal time {time}"
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise TypeError(f"{subject} must be a number, got {shown(weight)}")
    if not isinstance(weight, Rational) and not math.isfinite(weight):
        raise ValueError(f"{subject} must be finite, got {weight}")
    # A float counts as its decimal text: 0.1 is 1/10.
    exact = Fraction(weight) if isinstance(weight, Rational) else Fraction(repr(float(weight)))
    if exact < 0:
        raise ValueError(f"{subject} must not be negative, got {weight}")
    return exact


def _refuse_unknown(weights: Mapping[str, object], names: Sequence[str]) -> None:
    unknown = [name for name in weights if name not in names]
    if unknown:
        raise ValueError(
            f"there is no corpus {unknown[0]!r} to weigh, there are: {', '.join(names)}"
        )
