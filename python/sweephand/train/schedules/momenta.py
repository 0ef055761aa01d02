"""Schedules of momenta."""

import math

from sweephand.source.schedules.formula import Formula
from sweephand.source.schedules.schedule import Follows, Schedule
from sweephand.source.schedules.spec import Spec, schedule_of
from sweephand.train.arguments import check_decay, check_rate


def momentum_schedule(
    spec: Spec[float] | Formula,
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
    spec : float, str, list or formula
        As for `learning_parameter_schedule`, with momenta in ``[0, 1)``.
    epoch_size : int, optional
        Samples of an epoch; by default an epoch is one sweep.
    minibatch_size : int, optional
        The reference size M in samples; None or 0: every minibatch is its own reference.
    follows : {"applied", "consumed"}
        The samples that move the schedule; those of skipped steps are only consumed.

    Raises
    ------
    ValueError
        If a momentum is outside ``[0, 1)``, a size is not positive, or the text cannot be
        read.

    Examples
    --------
    >>> import sweephand as sh
    >>> momentum = sh.momentum_schedule([0.5, 0.9], epoch_size=1000, minibatch_size=64)
    >>> momentum[0], momentum[1000], momentum.minibatch_size
    (0.5, 0.9, 64)
    """
    return schedule_of(spec, _momentum, minibatch_size, epoch_size, follows)


def momentum_schedule_per_sample(
    spec: Spec[float] | Formula, epoch_size: int | None = None, *, follows: Follows = "applied"
) -> Schedule[float]:
    """Make a schedule of momenta per sample: the reference size is 1.

    See `momentum_schedule` for the parameters.

    Examples
    --------
    >>> import sweephand as sh
    >>> momentum = sh.momentum_schedule_per_sample(0.999)
    >>> momentum[0], momentum.minibatch_size
    (0.999, 1)
    """
    return schedule_of(spec, _momentum, 1, epoch_size, follows)


def momentum_as_time_constant_schedule(
    spec: Spec[float], epoch_size: int | None = None, *, follows: Follows = "applied"
) -> Schedule[float]:
    """Make a schedule of momenta per sample from time constants in samples.

    After one time constant of samples the weight of a gradient falls to 1/e: the momentum per
    sample is ``exp(-1 / constant)``, and 0 for a constant of 0.

    Parameters
    ----------
    spec : float, str or list
        As for `learning_parameter_schedule`, with time constants of at least 0 samples.
    epoch_size : int, optional
        Samples of an epoch; by default an epoch is one sweep.
    follows : {"applied", "consumed"}
        The samples that move the schedule; those of skipped steps are only consumed.

    Raises
    ------
    ValueError
        If a time constant is negative or not finite, or the text cannot be read.

    Examples
    --------
    >>> round(momentum_as_time_constant_schedule(2500)[0], 8)
    0.99960008
    """
    return schedule_of(spec, _momentum_of_time_constant, 1, epoch_size, follows)


def _momentum(value: object) -> float:
    return check_decay("a momentum", value)


def _momentum_of_time_constant(value: object) -> float:
    constant = check_rate("a time constant", value)
    return math.exp(-1 / constant) if constant > 0 else 0.0
