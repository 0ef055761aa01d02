"""Learning rates and momenta that change with the samples seen."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from sweephand.base.checks import check_decay, check_rate
from sweephand.source.formula import Formula
from sweephand.source.schedules import (
    Follows,
    FormulaSchedule,
    Schedule,
    Spec,
    StepSchedule,
    schedule_of,
)
from sweephand.train.states import decode

_rate = partial(check_rate, "a learning rate")
_momentum = partial(check_decay, "a momentum")


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
        seen, such as `sh.warmup`.
    minibatch_size : int, optional
        The reference size M in samples; None or 0: every minibatch is its own reference.
    epoch_size : int, optional
        Samples of an epoch; by default, or if it is `FULL_DATA_SWEEP`, an epoch is one sweep.
        With a single rate or a formula it has no meaning, and a warning says so.
    follows : {"applied", "consumed"}
        The samples that move the schedule; those of skipped steps are only consumed.

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


def as_schedule(lr_schedule: float | Schedule[float]) -> Schedule[float]:
    """Return a schedule as it is, and a number as a schedule of that rate."""
    if isinstance(lr_schedule, Schedule):
        return lr_schedule
    return learning_parameter_schedule(lr_schedule)


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
    spec, epoch_size, minibatch_size, follows
        As for `learning_parameter_schedule`, with momenta in ``[0, 1)``, or a ValueError.

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
    spec, epoch_size, follows
        As for `learning_parameter_schedule`, with finite time constants of at least 0 samples,
        or a ValueError.

    Examples
    --------
    >>> round(momentum_as_time_constant_schedule(2500)[0], 8)
    0.99960008
    """
    return schedule_of(spec, _momentum_of_time_constant, 1, epoch_size, follows)


def _momentum_of_time_constant(value: object) -> float:
    constant = check_rate("a time constant", value)
    return math.exp(-1 / constant) if constant > 0 else 0.0


def schedule_state(value: Any) -> Any:
    """Return a schedule, or a plain value, as JSON can hold it."""
    return asdict(value) if isinstance(value, StepSchedule | FormulaSchedule) else value


def read_value(state: Any) -> Any:
    """Return the schedule or plain value that `schedule_state` was given."""
    return read_schedule(state) if isinstance(state, Mapping) else state


def read_schedule(state: Mapping[str, Any]) -> Schedule[float]:
    """Return the schedule of a state, and raise if it is not possible."""
    follows = decode(Follows, state["follows"], "follows")
    minibatch_size = decode(int | None, state["minibatch_size"], "minibatch_size")
    if "formula" in state:
        return FormulaSchedule(Formula.of_dict(state["formula"]), minibatch_size, follows)
    steps = decode(tuple[tuple[int, float], ...], state["steps"], "steps")
    if not steps or not all(epochs > 0 for epochs, _ in steps):
        raise ValueError(f"it holds the schedule {dict(state)}")
    for _, value in steps:
        check_rate("a value", value)
    epoch_size = decode(int | None, state["epoch_size"], "epoch_size")
    return StepSchedule(steps, epoch_size, minibatch_size, follows)
