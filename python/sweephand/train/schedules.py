"""Values that change with the samples seen: minibatch sizes, learning rates, momenta.

A schedule is pure: it holds no position, and the same position always gives the same value.
"""

import math
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import Generic, Literal, TypeAlias, TypeVar

from sweephand.checks import check_int, check_number
from sweephand.errors import ArgumentTypeError
from sweephand.source.limits import FULL_DATA_SWEEP

Number = TypeVar("Number", int, float)
Spec: TypeAlias = Number | str | Sequence[Number | tuple[int, Number]]
Follows: TypeAlias = Literal["applied", "consumed"]


@dataclass(frozen=True)
class Schedule(Generic[Number]):
    """A value for every position, made by the functions of this module.

    ``schedule[position]`` is the value at a position: the samples seen, or the sweeps ended if
    ``epoch_size`` is None. The last value lasts for ever.

    Attributes
    ----------
    steps : tuple of (int, number)
        Each value and, before it, the number of epochs for which it holds.
    epoch_size : int or None
        Samples of an epoch; None: an epoch is one sweep.
    minibatch_size : int or None
        The size for which a learning rate or momentum was tuned; None: whatever comes.
    follows : {"applied", "consumed"}
        The clock that moves the schedule: samples that changed the parameters, or all samples
        including those of skipped steps.
    """

    steps: tuple[tuple[int, Number], ...]
    epoch_size: int | None
    minibatch_size: int | None = None
    follows: Follows = "applied"

    def __getitem__(self, position: int) -> Number:
        """Return the value at ``position``, a number of samples or sweeps of at least 0."""
        if position < 0:
            raise IndexError(f"a position is at least 0, got {position}")
        return self.steps[bisect_right(self._ends, position)][1]

    @cached_property
    def _ends(self) -> list[int]:
        """Where each value but the last ends."""
        unit = 1 if self.epoch_size is None else self.epoch_size
        return list(accumulate(epochs * unit for epochs, _ in self.steps[:-1]))

    def at(self, samples: int, sweeps: int) -> Number:
        """Return the value when that many samples are seen and that many sweeps ended."""
        return self[sweeps if self.epoch_size is None else samples]

    def is_last_at(self, samples: int, sweeps: int) -> bool:
        """Whether the last value holds by then."""
        position = sweeps if self.epoch_size is None else samples
        return not self._ends or position >= self._ends[-1]


def minibatch_size_schedule(spec: Spec[int], epoch_size: int = 1) -> Schedule[int]:
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

    Raises
    ------
    ValueError
        If a size or ``epoch_size`` is no positive int, or the text cannot be read.

    Examples
    --------
    >>> schedule = minibatch_size_schedule("128*2 + 1024", epoch_size=500)
    >>> schedule[999], schedule[1000], schedule[10**9]
    (128, 1024, 1024)
    """
    if epoch_size == FULL_DATA_SWEEP:
        raise ValueError("epoch_size must be a number of samples, got FULL_DATA_SWEEP")
    steps = _steps(spec, _minibatch_size, int)
    if epoch_size != 1 and _is_single(spec):
        raise ValueError(f"epoch_size has no meaning with the single value {spec!r}")
    return Schedule(steps, check_int("epoch_size", epoch_size), follows="consumed")


def learning_parameter_schedule(
    spec: Spec[float],
    minibatch_size: int | None = None,
    epoch_size: int | None = None,
    *,
    follows: Follows = "applied",
) -> Schedule[float]:
    """Make a schedule of learning rates.

    With a reference size M the rate x is one per M samples: a learner that is given the sum g
    of n samples' gradients moves by ``x / M * g``, whatever n is. Without one it moves by
    ``x / n * g``.

    Parameters
    ----------
    spec : float, str or list
        One rate for ever; a list of rates for one epoch each, in which a pair ``(n, rate)``
        holds for n epochs; or the same as text, ``"0.1*12 + 0.01"``.
    minibatch_size : int, optional
        The reference size M in samples; None or 0: every minibatch is its own reference.
    epoch_size : int, optional
        Samples of an epoch; by default, or if it is `FULL_DATA_SWEEP`, an epoch is one sweep.
        With a single rate it has no meaning, and a warning says so.
    follows : {"applied", "consumed"}
        Whether samples of skipped steps move the schedule.

    Returns
    -------
    Schedule
        Rates of at least 0.

    Raises
    ------
    ValueError
        If a rate is negative or not finite, a size is not positive, or the text cannot be read.

    Examples
    --------
    >>> schedule = learning_parameter_schedule([(12, 0.1), (15, 0.01), 0.001], epoch_size=100)
    >>> schedule[1199], schedule[1200], schedule[2700]
    (0.1, 0.01, 0.001)
    """
    return _learning_schedule(spec, _rate, minibatch_size, epoch_size, follows)


def learning_parameter_schedule_per_sample(
    spec: Spec[float], epoch_size: int | None = None, *, follows: Follows = "applied"
) -> Schedule[float]:
    """Make a schedule of learning rates per sample: the reference size is 1.

    See `learning_parameter_schedule` for the parameters.
    """
    return _learning_schedule(spec, _rate, 1, epoch_size, follows)


class UnitType(Enum):
    """What the rates of a `training_parameter_schedule` are for."""

    sample = "sample"
    minibatch = "minibatch"


def training_parameter_schedule(
    schedule: Spec[float], unit: UnitType, epoch_size: int | None = None
) -> Schedule[float]:
    """Make a schedule of learning rates as CNTK 2.0 spells it.

    ``UnitType.sample`` is `learning_parameter_schedule_per_sample`, ``UnitType.minibatch``
    `learning_parameter_schedule` without a reference size.

    Raises
    ------
    ArgumentTypeError
        If ``unit`` is none.
    ValueError
        As `learning_parameter_schedule`.
    """
    return _learning_schedule(schedule, _rate, _reference_of(unit), epoch_size, "applied")


def learning_rate_schedule(
    lr: Spec[float], unit: UnitType, epoch_size: int | None = None
) -> Schedule[float]:
    """Do what `training_parameter_schedule` does, by the other name that it has in CNTK 2.0."""
    return _learning_schedule(lr, _rate, _reference_of(unit), epoch_size, "applied")


def momentum_schedule(
    spec: Spec[float],
    epoch_size: int | None = None,
    minibatch_size: int | None = None,
    *,
    follows: Follows = "applied",
) -> Schedule[float]:
    """Make a schedule of momenta.

    With a reference size M, the momentum b of a minibatch of n samples is ``b ** (n / M)``:
    the same decay per sample, whatever n is. Without one it is b.

    Parameters
    ----------
    spec : float, str or list
        As for `learning_parameter_schedule`, with momenta in ``[0, 1)``.
    epoch_size : int, optional
        Samples of an epoch; by default an epoch is one sweep.
    minibatch_size : int, optional
        The reference size M in samples; None or 0: every minibatch is its own reference.
    follows : {"applied", "consumed"}
        Whether samples of skipped steps move the schedule.

    Raises
    ------
    ValueError
        If a momentum lies outside ``[0, 1)``, a size is not positive, or the text cannot be
        read.
    """
    return _learning_schedule(spec, _momentum, minibatch_size, epoch_size, follows)


def momentum_schedule_per_sample(
    spec: Spec[float], epoch_size: int | None = None, *, follows: Follows = "applied"
) -> Schedule[float]:
    """Make a schedule of momenta per sample: the reference size is 1.

    See `momentum_schedule` for the parameters.
    """
    return _learning_schedule(spec, _momentum, 1, epoch_size, follows)


def momentum_as_time_constant_schedule(
    spec: Spec[float], epoch_size: int | None = None, *, follows: Follows = "applied"
) -> Schedule[float]:
    """Make a schedule of momenta per sample from time constants in samples.

    After as many samples as the time constant says, a gradient weighs 1/e of what it did: the
    momentum per sample is ``exp(-1 / constant)``, and 0 for a constant of 0.

    Parameters
    ----------
    spec : float, str or list
        As for `learning_parameter_schedule`, with time constants of at least 0 samples.
    epoch_size : int, optional
        Samples of an epoch; by default an epoch is one sweep.
    follows : {"applied", "consumed"}
        Whether samples of skipped steps move the schedule.

    Raises
    ------
    ValueError
        If a time constant is negative or not finite, or the text cannot be read.

    Examples
    --------
    >>> round(momentum_as_time_constant_schedule(2500)[0], 8)
    0.99960008
    """
    return _learning_schedule(spec, _momentum_of_time_constant, 1, epoch_size, follows)


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


def _reference_of(unit: object) -> int | None:
    if not isinstance(unit, UnitType):
        raise ArgumentTypeError(
            f"unit must be UnitType.sample or UnitType.minibatch, got {unit!r}"
        )
    return 1 if unit is UnitType.sample else None


def _learning_schedule(
    spec: Spec[float],
    read: Callable[[object], float],
    minibatch_size: int | None,
    epoch_size: int | None,
    follows: Follows,
) -> Schedule[float]:
    """Make a schedule for one of the public functions, which call this and nothing between."""
    steps = _steps(spec, read, float)
    if follows not in ("applied", "consumed"):
        raise ValueError(f"follows must be 'applied' or 'consumed', got {follows!r}")
    if minibatch_size is not None and minibatch_size != 0:
        check_int("minibatch_size", minibatch_size)
    if epoch_size is not None:
        check_int("epoch_size", epoch_size)
        if _is_single(spec):
            warnings.warn(
                f"epoch_size has no meaning with the single value {spec!r}",
                RuntimeWarning,
                stacklevel=3,
            )
    by_sweep = epoch_size in (None, FULL_DATA_SWEEP)
    return Schedule(steps, None if by_sweep else epoch_size, minibatch_size or None, follows)


def _is_single(spec: object) -> bool:
    return not isinstance(spec, Sequence)


def _steps(
    spec: object, check: Callable[[object], Number], number: type[Number]
) -> tuple[tuple[int, Number], ...]:
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
        epochs = 1  # the last value lasts for ever, whatever its number says
    return check_int("the number of epochs", epochs), check(value)


def _parse(text: str, number: type[Number]) -> list[tuple[int, Number]]:
    """Read ``"128*2 + 1024"``; as in BrainScript ``:`` may stand for ``+``."""
    digits = r"\d+" if number is int else r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
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


def _minibatch_size(value: object) -> int:
    return check_int("a minibatch size", value)


def _rate(value: object) -> float:
    rate = check_number("a learning rate", value)
    if not 0 <= rate < math.inf:
        raise ValueError(f"a learning rate must be finite and at least 0, got {value!r}")
    return rate


def _momentum(value: object) -> float:
    momentum = check_number("a momentum", value)
    if not 0 <= momentum < 1:
        raise ValueError(f"a momentum must lie in [0, 1), got {value!r}")
    return momentum


def _momentum_of_time_constant(value: object) -> float:
    constant = check_number("a time constant", value)
    if not 0 <= constant < math.inf:
        raise ValueError(f"a time constant must be finite and at least 0, got {value!r}")
    return math.exp(-1 / constant) if constant > 0 else 0.0
