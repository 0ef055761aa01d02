"""A value for every position of training, and its notations: a number, a list, a text.

A schedule is pure: it holds no position, and the same position always gives the same value.
"""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Generic, Literal, Protocol, TypeAlias, TypeGuard, TypeVar, cast

import numpy as np

from sweephand.base.checks import check_choice, check_int
from sweephand.source.formula import Formula
from sweephand.source.limits import FULL_DATA_SWEEP

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

    def at(self, samples: int, sweeps: int) -> Number:
        """Return the value when that many samples are seen and that many sweeps ended."""
        is_of_sweeps = isinstance(self, StepSchedule) and self.epoch_size is None
        return self[sweeps if is_of_sweeps else samples]

    @abstractmethod
    def is_last_at(self, samples: int, sweeps: int) -> bool:
        """Return True if the last value holds by then."""

    @property
    def least_change(self) -> float:
        """The change of its value that is worth a line in a log: any."""
        return 0.0


@dataclass(frozen=True)
class StepSchedule(Schedule[Number]):
    """Schedule of values that hold for a number of epochs each; see `Schedule`."""

    steps: tuple[tuple[int, Number], ...]  # numbers of epochs, and values
    epoch_size: int | None  # in samples; None: an epoch is one sweep
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

    def is_last_at(self, samples: int, sweeps: int) -> bool:
        """Return True if the last value holds by then."""
        position = sweeps if self.epoch_size is None else samples
        return not self._ends or position >= self._ends[-1]


@dataclass(frozen=True)
class FormulaSchedule(Schedule[float]):
    """Schedule of the values of a formula, a function of the samples seen; see `Schedule`."""

    formula: Formula
    minibatch_size: int | None = None
    follows: Follows = "applied"

    def __getitem__(self, position: int) -> float:
        """Return the value at ``position``, a number of samples of at least 0."""
        _check_position(position)
        return self.formula(position)

    def is_last_at(self, samples: int, sweeps: int) -> bool:
        """Return True if the last value holds by then."""
        return samples >= self.formula.pieces[-1][1]

    @property
    def least_change(self) -> float:
        """The change of its value that is worth a line in a log: 2% of the highest."""
        return max(self.formula.values()) / 50


def _check_position(position: int) -> None:
    if position < 0:
        raise IndexError(f"a position is at least 0, got {position}")


def mean_gradient_rate(rate: float, num_samples: int, minibatch_size: int | None) -> float:
    """Return the rate that a step over the mean of ``num_samples`` gradients takes."""
    return rate if minibatch_size is None else rate * num_samples / minibatch_size


def minibatch_momentum(momentum: float, num_samples: int, minibatch_size: int | None) -> float:
    """Return the momentum of one minibatch of ``num_samples``."""
    return momentum if minibatch_size is None else momentum ** (num_samples / minibatch_size)


Spec: TypeAlias = Number | str | Sequence[Number | tuple[int, Number]]


def schedule_of(
    spec: Spec[float] | Formula,
    read: Callable[[object], float],
    minibatch_size: int | None,
    epoch_size: int | None,
    follows: Follows,
) -> Schedule[float]:
    """Make a schedule; REQUIRES that a public function calls this directly."""
    if isinstance(spec, Formula) and any(read(value) != value for value in spec.values()):
        raise ValueError("time constants cannot be given by a formula: give momenta")
    values = spec if isinstance(spec, Formula) else read_steps(spec, read, float)
    check_choice("follows", follows, "applied", "consumed")
    if minibatch_size is not None and minibatch_size != 0:
        check_int("minibatch_size", minibatch_size)
    if epoch_size is not None:
        check_int("epoch_size", epoch_size)
        if not isinstance(spec, Sequence):
            warnings.warn(
                f"epoch_size has no meaning with the single value {spec!r}",
                RuntimeWarning,
                stacklevel=3,
            )
    if isinstance(values, Formula):
        return FormulaSchedule(values, minibatch_size or None, follows)
    by_sweep = epoch_size in (None, FULL_DATA_SWEEP)
    return StepSchedule(
        values, None if by_sweep else epoch_size, minibatch_size or None, follows
    )


def read_steps(
    spec: object, check: Callable[[object], Number], number: type[Number]
) -> tuple[tuple[int, Number], ...]:
    """Return each value with the number of its epochs before it, or raise ValueError."""
    if isinstance(spec, str):
        entries: list[object] = list(_parse(spec, number))
    elif isinstance(spec, tuple):
        raise ValueError(f"a schedule is a list of values or pairs, got the tuple {spec!r}")
    elif isinstance(spec, Sequence):
        entries = list(spec)
    else:
        return ((1, check(spec)),)
    if not entries:
        raise ValueError("a schedule needs at least one value, got none")
    last = len(entries) - 1
    return tuple(_step(entry, check, is_last=i == last) for i, entry in enumerate(entries))


def _step(
    entry: object, check: Callable[[object], Number], *, is_last: bool
) -> tuple[int, Number]:
    if not isinstance(entry, tuple):
        return 1, check(entry)
    if len(entry) != 2:
        raise ValueError(f"a pair is (number of epochs, value), got {entry!r}")
    epochs, value = entry
    if is_last and epochs == 0:
        epochs = 1  # the last value lasts for ever, whatever its number
    return check_int("the number of epochs", epochs), check(value)


_DIGITS: dict[type, str] = {int: r"\d+", float: r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"}


def _parse(text: str, number: type[Number]) -> list[tuple[int, Number]]:
    """Read ``"128*2 + 1024"``; as in BrainScript ``:`` is allowed in place of ``+``."""
    digits = _DIGITS[number]
    entries = []
    for term in re.split(r"(?<![eE])[+:]", text):  # not at the sign of an exponent
        found = re.fullmatch(rf"\s*({digits})\s*(?:\*\s*(\d+)\s*)?", term)
        if found is None:
            raise ValueError(
                f"cannot read {term.strip()!r} in the schedule {text!r}: "
                "wanted 'value' or 'value*epochs', joined by '+'"
            )
        entries.append((int(found[2] or 1), number(found[1])))
    return entries


def minibatch_size_schedule(spec: Spec[int], epoch_size: int = 1) -> StepSchedule[int]:
    """Make a schedule of minibatch sizes, indexed by samples seen.

    Parameters
    ----------
    spec : int, str or list
        One size for ever; a list of sizes for one epoch each, in which a pair ``(n, size)``
        holds for n epochs; or the same as text, ``"128*2 + 1024"``.
    epoch_size : int
        Samples of an epoch. With a single size it has no meaning and is refused.

    Returns
    -------
    Schedule
        Sizes in samples. It follows the consumed samples.

    Examples
    --------
    >>> schedule = minibatch_size_schedule("128*2 + 1024", epoch_size=500)
    >>> schedule[999], schedule[1000], schedule[10**9]
    (128, 1024, 1024)
    """
    if epoch_size == FULL_DATA_SWEEP:
        raise ValueError("epoch_size must be a number of samples, got FULL_DATA_SWEEP")
    steps = read_steps(spec, partial(check_int, "a minibatch size"), int)
    if epoch_size != 1 and not isinstance(spec, Sequence):
        raise ValueError(f"epoch_size has no meaning with the single value {spec!r}")
    return StepSchedule(steps, check_int("epoch_size", epoch_size), follows="consumed")


class SizeSchedule(Protocol):
    """Minibatch sizes, indexed by the samples seen."""

    def __getitem__(self, samples_seen: int, /) -> int:
        """Return the size of the minibatch that begins there."""


Size: TypeAlias = Spec[int] | SizeSchedule


def size_of(size: Size, sweep_samples: int) -> int | SizeSchedule:
    """Return a size or schedule, by whichever notation it is given; epochs are sweeps."""
    if isinstance(size, int):
        return size
    if isinstance(size, str | list | tuple):
        size = minibatch_size_schedule(size, sweep_samples)
    if isinstance(size, StepSchedule) and size.epoch_size is None:
        return replace(size, epoch_size=sweep_samples)
    return cast(int | SizeSchedule, size)


def is_schedule(size: int | SizeSchedule) -> TypeGuard[SizeSchedule]:
    """Return True if a size depends on the time."""
    return hasattr(size, "__getitem__") and not isinstance(size, np.generic)


def size_at(size: int | SizeSchedule, time: int) -> int:
    """Return the size at a nominal time."""
    return size[time] if is_schedule(size) else cast(int, size)
