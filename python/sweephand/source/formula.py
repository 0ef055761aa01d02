"""Formulas of schedules: warm-up, cosine and linear decay, and their combinations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sweephand.base.checks import check_choice, check_int, check_number
from sweephand.errors import ArgumentTypeError

# How far a piece has come from its first value to its last, by its share of samples in [0, 1].
SHAPES: dict[str, Callable[[float], float]] = {
    "linear": lambda share: share,
    "cosine": lambda share: (1 - math.cos(math.pi * share)) / 2,
}


@dataclass(frozen=True)
class Formula:
    """A function of the samples seen, made of pieces from one value to the next.

    Examples
    --------
    >>> import sweephand as sh
    >>> rates = 0.1 * sh.warmup(1000).then(sh.cosine(9000, floor=0.1))
    >>> [round(rates(samples), 4) for samples in (0, 500, 1000, 5000, 9000, 10**9)]
    [0.0, 0.05, 0.1, 0.055, 0.01, 0.01]
    """

    start: float  # the value at 0 samples
    # the shape of each, the samples at which it ends, and its value there; the last one lasts
    pieces: tuple[tuple[str, int, float], ...]

    def __post_init__(self) -> None:
        ends = [0]
        for shape, end, _ in self.pieces:
            check_choice("a shape", shape, *SHAPES)
            if check_int("the end of a piece", end) <= ends[-1]:
                raise ValueError(
                    f"a formula must end after the one before it, which ends at {ends[-1]} "
                    f"samples; got {end}"
                )
            ends.append(end)
        if not self.pieces or not all(0 <= value < math.inf for value in self.values()):
            raise ValueError(f"values must be finite and at least 0, got {self!r}")

    def __call__(self, samples: int) -> float:
        """Return the value after `samples` samples."""
        begin, first = 0, self.start
        for shape, end, last in self.pieces:
            if samples < end:
                share = (samples - begin) / (end - begin)
                return first + (last - first) * SHAPES[shape](share)
            begin, first = end, last
        return first

    def __mul__(self, factor: float) -> Formula:
        """Return the formula with all its values multiplied."""
        if isinstance(factor, bool) or not isinstance(factor, int | float):
            return NotImplemented
        pieces = ((shape, end, factor * value) for shape, end, value in self.pieces)
        return Formula(factor * self.start, tuple(pieces))

    __rmul__ = __mul__

    def then(self, following: Formula) -> Formula:
        """Go on with another formula, from the value that this one comes to."""
        if not isinstance(following, Formula):
            raise ArgumentTypeError(f"following must be a formula, got {following!r:.100}")
        return Formula(self.start, self.pieces + following.pieces)

    def values(self) -> Iterator[float]:
        """Yield the values at the ends of pieces, the lowest and the highest among them."""
        yield self.start
        for _, _, value in self.pieces:
            yield value

    @classmethod
    def of_dict(cls, state: Any) -> Formula:
        """Return the formula of which `dataclasses.asdict` made a state, or raise."""
        pieces = (
            (str(shape), check_int("an end", end), check_number("a value", value))
            for shape, end, value in state["pieces"]
        )
        return cls(check_number("start", state["start"]), tuple(pieces))


def warmup(num_samples: int, start: float = 0.0) -> Formula:
    """Make a formula that rises from ``start`` to 1 in a line.

    Parameters
    ----------
    num_samples : int
        Samples since the beginning of the schedule at which it comes to 1.
    start : float
        The value at 0 samples, in [0, 1]; after another formula the value of that holds.

    Examples
    --------
    >>> import sweephand as sh
    >>> rates = 0.4 * sh.warmup(1000)  # multiplied by the highest rate
    >>> rates(0), rates(500), rates(1000), rates(10**9)
    (0.0, 0.2, 0.4, 0.4)
    """
    first = _within_one("start", start)
    return Formula(first, (("linear", check_int("num_samples", num_samples), 1.0),))


def cosine(num_samples: int, floor: float = 0.0) -> Formula:
    """Make a formula that falls to ``floor`` along half a cosine.

    It falls from 1, or after another formula from the value that it comes to.

    Parameters
    ----------
    num_samples : int
        Samples since the beginning of the schedule at which it comes to the floor: those of the
        whole training, a warm-up included.
    floor : float
        The last value, in [0, 1]: a part of the highest one.

    Examples
    --------
    >>> import sweephand as sh
    >>> rates = sh.learning_parameter_schedule(0.4 * sh.cosine(9000, floor=0.1))
    >>> [round(rates[samples], 3) for samples in (0, 4500, 9000)]
    [0.4, 0.22, 0.04]
    """
    return _fall("cosine", num_samples, floor)


def linear(num_samples: int, floor: float = 0.0) -> Formula:
    """Make a formula that falls to ``floor`` in a line; for the parameters see `cosine`.

    Examples
    --------
    >>> import sweephand as sh
    >>> rates = sh.learning_parameter_schedule(0.4 * sh.linear(1000))
    >>> rates[0], rates[500], rates[1000]
    (0.4, 0.2, 0.0)
    """
    return _fall("linear", num_samples, floor)


def warmup_stable_decay(
    num_samples: int, warmup_samples: int, decay_samples: int, floor: float = 0.0
) -> Formula:
    """Make a formula that rises to 1 in a line, stays there, and falls to ``floor`` in a line.

    Parameters
    ----------
    num_samples : int
        Samples of the whole training.
    warmup_samples, decay_samples : int
        How many of them, at the beginning and in the end, it rises and falls.
    floor : float
        The last value, in [0, 1]: a part of the highest one.

    Examples
    --------
    >>> import sweephand as sh
    >>> rates = 0.4 * sh.warmup_stable_decay(10_000, warmup_samples=1000, decay_samples=2000)
    >>> [rates(samples) for samples in (0, 500, 1000, 8000, 9000, 10_000)]
    [0.0, 0.2, 0.4, 0.4, 0.2, 0.0]
    """
    rising = check_int("warmup_samples", warmup_samples)
    stable = check_int("num_samples", num_samples) - check_int("decay_samples", decay_samples)
    if stable < rising:
        raise ValueError(
            f"warmup_samples and decay_samples must be num_samples={num_samples} at most, got "
            f"{warmup_samples} and {decay_samples}"
        )
    made = warmup(rising)
    if stable > rising:
        made = made.then(Formula(1.0, (("linear", stable, 1.0),)))
    return made.then(linear(num_samples, floor))


def _fall(shape: str, num_samples: int, floor: float) -> Formula:
    last = _within_one("floor", floor)
    return Formula(1.0, ((shape, check_int("num_samples", num_samples), last),))


def _within_one(name: str, value: float) -> float:
    if not 0 <= check_number(name, value) <= 1:
        raise ValueError(f"{name} must lie in [0, 1], got {value!r}")
    return float(value)
