"""Schedules of learning rates."""

from enum import Enum

from sweephand.errors import ArgumentTypeError
from sweephand.source.schedules.formula import Formula
from sweephand.source.schedules.schedule import Follows, Schedule
from sweephand.source.schedules.spec import Spec, schedule_of
from sweephand.train.arguments import check_rate


def learning_parameter_schedule(
    spec: Spec[float] | Formula,
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
    spec : float, str, list or formula
        One rate for ever; a list of rates for one epoch each, in which a pair ``(n, rate)``
        holds for n epochs; the same as text, ``"0.1*12 + 0.01"``; or a function of the samples
        seen, ``0.1 * sh.warmup(1000).then(sh.cosine(100_000))``.
    minibatch_size : int, optional
        The reference size M in samples; None or 0: every minibatch is its own reference.
    epoch_size : int, optional
        Samples of an epoch; by default, or if it is `FULL_DATA_SWEEP`, an epoch is one sweep.
        With a single rate or a formula it has no meaning, and a warning says so.
    follows : {"applied", "consumed"}
        The samples that move the schedule; those of skipped steps are only consumed.

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

    >>> import sweephand as sh
    >>> decay = sh.warmup(1000).then(sh.cosine(9000, floor=0.1))
    >>> schedule = learning_parameter_schedule(0.4 * decay, minibatch_size=32)
    >>> [round(schedule[samples], 3) for samples in (0, 500, 1000, 5000, 9000)]
    [0.0, 0.2, 0.4, 0.22, 0.04]
    """
    return schedule_of(spec, _rate, minibatch_size, epoch_size, follows)


def learning_parameter_schedule_per_sample(
    spec: Spec[float] | Formula, epoch_size: int | None = None, *, follows: Follows = "applied"
) -> Schedule[float]:
    """Make a schedule of learning rates per sample: the reference size is 1.

    See `learning_parameter_schedule` for the parameters.

    Examples
    --------
    >>> import sweephand as sh
    >>> rate = sh.learning_parameter_schedule_per_sample("0.01*2 + 0.001", epoch_size=1000)
    >>> rate[0], rate[1999], rate[2000], rate.minibatch_size
    (0.01, 0.01, 0.001, 1)
    """
    return schedule_of(spec, _rate, 1, epoch_size, follows)


class UnitType(Enum):
    """Unit of the rates of a `training_parameter_schedule`: per sample or per minibatch.

    Examples
    --------
    >>> import sweephand as sh
    >>> rate = sh.train.training_parameter_schedule(0.01, sh.train.UnitType.sample)
    >>> rate.minibatch_size
    1
    """

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
        If ``unit`` is not a `UnitType`.
    ValueError
        As `learning_parameter_schedule`.

    Examples
    --------
    >>> import sweephand as sh
    >>> unit = sh.train.UnitType.sample
    >>> rate = sh.train.training_parameter_schedule([(2, 0.1), 0.01], unit, 500)
    >>> rate[999], rate[1000]
    (0.1, 0.01)
    """
    return schedule_of(schedule, _rate, _reference_of(unit), epoch_size, "applied")


def learning_rate_schedule(
    lr: Spec[float], unit: UnitType, epoch_size: int | None = None
) -> Schedule[float]:
    """Make a schedule by `training_parameter_schedule`, under its other name in CNTK 2.0.

    Examples
    --------
    >>> import sweephand as sh
    >>> unit = sh.train.UnitType.minibatch
    >>> rate = sh.train.learning_rate_schedule([0.1, 0.01], unit, epoch_size=1000)
    >>> rate[0], rate[1000]
    (0.1, 0.01)
    """
    return schedule_of(lr, _rate, _reference_of(unit), epoch_size, "applied")


def as_schedule(lr_schedule: float | Schedule[float]) -> Schedule[float]:
    """Return a schedule as it is, and a number as a schedule of that rate."""
    if isinstance(lr_schedule, Schedule):
        return lr_schedule
    return learning_parameter_schedule(lr_schedule)


def _reference_of(unit: object) -> int | None:
    if not isinstance(unit, UnitType):
        raise ArgumentTypeError(
            f"unit must be UnitType.sample or UnitType.minibatch, got {unit!r}"
        )
    return 1 if unit is UnitType.sample else None


def _rate(value: object) -> float:
    return check_rate("a learning rate", value)
