"""A value for every position of training.

A schedule is pure: it holds no position, and the same position always gives the same value.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Generic, Literal, TypeAlias, TypeVar

from sweephand.source.schedules.formula import Formula

Number = TypeVar("Number", int, float)
Follows: TypeAlias = Literal["applied", "consumed"]


class Schedule(ABC, Generic[Number]):
    """A value for every position; the functions of this room make schedules.

    ``schedule[position]`` is the value at a position: the samples seen, or for a `StepSchedule`
    without ``epoch_size`` the sweeps ended. The last value lasts for ever.

    Attributes
    ----------
    minibatch_size : int or None
        The size for which a learning rate or momentum was tuned; None: whatever comes.
    follows : {"applied", "consumed"}
        The clock that moves the schedule: samples that changed the parameters, or all samples
        including those of skipped steps.
    """

    minibatch_size: int | None
    follows: Follows

    @abstractmethod
    def __getitem__(self, position: int) -> Number:
        """Return the value at ``position``, a number of samples or sweeps of at least 0."""

    @abstractmethod
    def at(self, samples: int, sweeps: int) -> Number:
        """Return the value when that many samples are seen and that many sweeps ended."""

    @abstractmethod
    def is_last_at(self, samples: int, sweeps: int) -> bool:
        """Return True if the last value holds by then."""

    @property
    @abstractmethod
    def least_change(self) -> float:
        """The change of its value that is worth a line in a log."""


@dataclass(frozen=True)
class StepSchedule(Schedule[Number]):
    """Schedule of values that hold for a number of epochs each.

    Attributes
    ----------
    steps : tuple of (int, number)
        Each value and, before it, the number of epochs for which it holds.
    epoch_size : int or None
        Samples of an epoch; None: an epoch is one sweep.
    minibatch_size, follows
        As for `Schedule`.
    """

    steps: tuple[tuple[int, Number], ...]
    epoch_size: int | None
    minibatch_size: int | None = None
    follows: Follows = "applied"

    def __getitem__(self, position: int) -> Number:
        """Return the value at ``position``, a number of samples or sweeps of at least 0."""
        _check_position(position)
        return self.steps[bisect_right(self._ends, position)][1]

    @cached_property
    def _ends(self) -> list[int]:
        """The end of each value but the last."""
        unit = 1 if self.epoch_size is None else self.epoch_size
        return list(accumulate(epochs * unit for epochs, _ in self.steps[:-1]))

    def at(self, samples: int, sweeps: int) -> Number:
        """Return the value when that many samples are seen and that many sweeps ended."""
        return self[sweeps if self.epoch_size is None else samples]

    def is_last_at(self, samples: int, sweeps: int) -> bool:
        """Return True if the last value holds by then."""
        position = sweeps if self.epoch_size is None else samples
        return not self._ends or position >= self._ends[-1]

    @property
    def least_change(self) -> float:
        """The change of its value that is worth a line in a log: any."""
        return 0.0


@dataclass(frozen=True)
class FormulaSchedule(Schedule[float]):
    """Schedule of the values of a formula, a function of the samples seen."""

    formula: Formula
    # as for `Schedule`
    minibatch_size: int | None = None
    follows: Follows = "applied"

    def __getitem__(self, position: int) -> float:
        """Return the value at ``position``, a number of samples of at least 0."""
        _check_position(position)
        return self.formula(position)

    def at(self, samples: int, sweeps: int) -> float:
        """Return the value when that many samples are seen."""
        return self.formula(samples)

    def is_last_at(self, samples: int, sweeps: int) -> bool:
        """Return True if the last value holds by then."""
        return samples >= self.formula.end

    @property
    def least_change(self) -> float:
        """The change of its value that is worth a line in a log: 2% of the highest."""
        return max(self.formula.values()) / 50


def _check_position(position: int) -> None:
    if position < 0:
        raise IndexError(f"a position is at least 0, got {position}")


def mean_gradient_rate(rate: float, num_samples: int, minibatch_size: int | None) -> float:
    """Return the rate that a step over the mean of ``num_samples`` gradients takes.

    Examples
    --------
    >>> mean_gradient_rate(0.32, num_samples=8, minibatch_size=32)
    0.08
    >>> mean_gradient_rate(0.32, num_samples=8, minibatch_size=None)
    0.32
    """
    return rate if minibatch_size is None else rate * num_samples / minibatch_size


def minibatch_momentum(momentum: float, num_samples: int, minibatch_size: int | None) -> float:
    """Return the momentum of one minibatch of ``num_samples``.

    Examples
    --------
    >>> round(minibatch_momentum(0.9, num_samples=8, minibatch_size=32), 6)
    0.974004
    """
    return momentum if minibatch_size is None else momentum ** (num_samples / minibatch_size)
