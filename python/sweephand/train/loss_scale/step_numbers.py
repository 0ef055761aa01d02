"""Numbers of guarded steps: scale, counts and statistics, as floats or on a device."""

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sweephand.train.loss_scale.scale_settings import as_float32

Number: TypeAlias = Any  # a float, or a tensor of one that a device is still computing
Reduce: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]
Change: TypeAlias = Literal["none", "growth", "backoff", "floor"]
CHANGES: tuple[Change, ...] = ("none", "growth", "backoff", "floor")  # by their number
NOT_ASKED = -1.0  # for a norm
NOTHING = -math.inf  # the logarithm of a value that is not positive, or not known


class Statistic(NamedTuple):
    """Exponential mean and variance of a logarithm, exact from the first value on."""

    count: Number = 0.0
    weight: Number = 0.0  # of all values together: 1 - decay ** count
    mean: Number = 0.0
    variance: Number = 0.0

    def fed(self, value: Number, decay: float) -> "Statistic":
        """Return what it becomes by a value."""
        weight = decay * self.weight + (1.0 - decay)
        share = (1.0 - decay) / weight
        difference = value - self.mean
        variance = (1.0 - share) * (self.variance + share * difference * difference)
        return Statistic(self.count + 1, weight, self.mean + share * difference, variance)


class StepNumbers(NamedTuple):
    """Those that go on from step to step, then those of the last step."""

    scale: Number
    counter: Number  # applied steps in a row since the scale last changed
    credit: Number  # overflows that are let pass until one halves the scale
    steps: Number = 0.0
    applied_steps: Number = 0.0
    skips_in_a_row: Number = 0.0
    is_good: Number = False
    cause: Number = 0.0
    scale_used: Number = 0.0
    change: Number = 0.0
    norm: Number = NOT_ASKED  # of all shards together
    parted: Number = False  # the scale or counter of a worker is another
    statistics: tuple[Statistic, ...] = ()

    def flat(self) -> list[Number]:
        """Return all of them in a row."""
        return [*self[:-1], *chain(*self.statistics)]

    @classmethod
    def of(cls, flat: Sequence[Number]) -> "StepNumbers":
        """Return the numbers that `flat` has put in a row."""
        count = len(cls._fields) - 1
        fours = zip(*[iter(flat[count:])] * 4, strict=True)
        return cls._make([*flat[:count], tuple(Statistic(*four) for four in fours)])


class HostNumbers:
    """The numbers of a run as floats, and the arithmetic with them.

    Judgements are written once for floats and tensors, by what this class can do.
    """

    is_far = False  # its numbers are on a device, whose reader waits

    def __init__(self, numbers: StepNumbers) -> None:
        self._numbers = numbers

    @property
    def is_captured(self) -> bool:
        """True while a graph captures the step: nothing can be read then."""
        return False

    def now(self) -> StepNumbers:
        """Return the numbers to compute with."""
        return self._numbers

    def write(self, numbers: StepNumbers) -> None:
        """Continue with these numbers."""
        self._numbers = numbers

    def reader(self) -> Callable[[], StepNumbers]:
        """Return a function that returns the present numbers as floats, now or later."""
        numbers = self._numbers
        return lambda: numbers

    def told(self) -> StepNumbers:
        """Return the numbers as floats, which waits for a device."""
        return self.reader()()

    def number(self, x: Any) -> Number:
        """Return a number; a tensor is waited for."""
        return float(x)

    def where(self, condition: Any, one: Number, other: Number) -> Number:
        """Return one number or the other."""
        return one if condition else other

    def log(self, x: Number) -> Number:
        """Return the logarithm; `NOTHING` unless it is positive and finite."""
        return math.log(x) if 0 < x < math.inf else NOTHING

    def as_float32(self, x: Number) -> Number:
        """Return the nearest float32."""
        return as_float32(x)

    def maximum(self, reduce: Reduce, mine: list[Number]) -> list[Number]:
        """Return the largest of each number over all workers."""
        together = np.asarray(reduce(np.array(mine, np.float64)), np.float64)
        if together.shape != (len(mine),):
            raise ValueError(f"reduce must return shape ({len(mine)},), got {together.shape}")
        largest: list[Number] = together.tolist()
        return largest
