"""Seesaw: minibatches that grow where learning rates fall."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from sweephand import minibatch_size_schedule
from sweephand.extend import Number, Schedule, StepSchedule, check_int, check_kind


class Seesaw(NamedTuple):
    """A pair of schedules that `seesaw` has made.

    Attributes
    ----------
    learning_rates : Schedule of float
        For the learner; it follows the consumed samples, as minibatch sizes do.
    minibatch_sizes : Schedule of int
        For a session, or ``source.minibatches``.
    steps_saved : int
        Number of steps saved, if all minibatches are full.

    Examples
    --------
    >>> import sweephand as sh
    >>> rates = sh.learning_parameter_schedule([0.4, 0.2], epoch_size=1000)
    >>> sh.train.seesaw(rates, 10, num_samples=2000).steps_saved
    50
    """

    learning_rates: Schedule[float]
    minibatch_sizes: Schedule[int]
    steps_saved: int


def seesaw(
    learning_rates: Schedule[float],
    minibatch_sizes: int | Schedule[int],
    num_samples: int,
    *,
    max_size: int | None = None,
) -> Seesaw:
    """Make schedules in which growing minibatches replace half of each fall of the rate.

    Where the rate of the mean gradient would halve, it is divided by the root of 2, and the
    minibatch doubles; so does any other fall by a factor a become one by the root of a, with
    minibatches that are a times as large. The square of the rate over the minibatch size keeps
    its value at every nominal time; training by Adam depends on it while minibatches are below
    the critical size: give that as ``max_size``. The same samples are trained in fewer steps.

    Rates may rise at first, as in a warm-up: minibatches grow after the highest rate. Sizes
    are rounded, and rates fit the rounded ones. After ``max_size`` rates fall as given. Both
    schedules are functions of nominal time alone, so a run can seek and resume.

    Parameters
    ----------
    learning_rates : Schedule of float
        By samples, with a reference size or without.
    minibatch_sizes : int or Schedule of int
        The sizes that these rates are for; a schedule has epochs in samples.
    num_samples : int
        Label samples of the whole training.
    max_size : int, optional
        The largest minibatch, in samples.

    Returns
    -------
    Seesaw
        Learning rates, minibatch sizes, and the number of steps saved.

    Raises
    ------
    ValueError
        If the rates do not fall, rise again, or change by sweeps, or if minibatches would grow
        without end.
    ArgumentTypeError
        If an argument is of a wrong type.

    References
    ----------
    Meterez et al. 2025, "Seesaw: accelerating training by balancing learning rate and batch
    size scheduling".

    Examples
    --------
    >>> import sweephand as sh
    >>> rates = sh.learning_parameter_schedule([0.4, 0.2, 0.1], epoch_size=1000)
    >>> rates, sizes, steps_saved = sh.train.seesaw(rates, 10, num_samples=3000)
    >>> [sizes[t] for t in (0, 1000, 2000)], steps_saved
    ([10, 20, 40], 125)
    >>> [round(rates[t], 3) for t in (0, 1000, 2000)]
    [0.4, 0.283, 0.2]
    """
    check_kind("learning_rates", learning_rates, Schedule)
    if not isinstance(learning_rates, StepSchedule):
        raise ValueError(
            "learning_rates must fall in cuts, as of a list of rates, not by a formula"
        )
    sizes = minibatch_sizes
    if not isinstance(sizes, StepSchedule):
        sizes = minibatch_size_schedule(check_int("minibatch_sizes", sizes))
    length = check_int("num_samples", num_samples)
    changes = {*_begins("learning_rates", learning_rates), *_begins("minibatch_sizes", sizes)}
    times = sorted(t for t in changes if t < length)
    rates = [learning_rates[t] for t in times]
    peak = _peak(times, rates)
    grown = [
        sizes[t] if i <= peak else _grow(sizes[t], rates[peak], rates[i], max_size)
        for i, t in enumerate(times)
    ]
    made = StepSchedule(_steps(times, grown), 1, follows="consumed")
    reference = learning_rates.minibatch_size
    fitted = [
        # A rate with a reference size is multiplied by the size, and so divided by it here.
        rate * math.sqrt(size / sizes[t] if reference is None else sizes[t] / size)
        for t, rate, size in zip(times, rates, grown, strict=True)
    ]
    return Seesaw(
        StepSchedule(_steps(times, fitted), 1, reference, follows="consumed"),
        made,
        _num_steps(sizes, length) - _num_steps(made, length),
    )


def _begins(name: str, schedule: StepSchedule[Number]) -> Iterator[int]:
    """Yield where each value begins, in samples."""
    yield 0
    if len(schedule.steps) > 1 and schedule.epoch_size is None:
        raise ValueError(
            f"{name} must change by samples, and these change at the ends of sweeps: give "
            "epoch_size"
        )
    time = 0
    for epochs, _ in schedule.steps[:-1]:
        time += epochs * (schedule.epoch_size or 1)
        yield time


def _peak(times: Sequence[int], rates: Sequence[float]) -> int:
    """Return the last time of the highest rate, or raise if later rates do not fall."""
    peak = max(range(len(rates)), key=lambda i: (rates[i], i))
    for i in range(peak + 1, len(rates)):
        if rates[i] > rates[i - 1]:
            raise ValueError(
                f"learning_rates must not rise again, as from {rates[i - 1]:g} to {rates[i]:g} "
                f"at {times[i]} samples"
            )
    if peak == len(rates) - 1:
        raise ValueError(
            f"learning_rates must decrease within num_samples: the last one, {rates[-1]:g}, is "
            "the highest"
        )
    return peak


def _grow(size: int, highest: float, rate: float, max_size: int | None) -> int:
    """Return the minibatch size that belongs to a fallen rate."""
    grown = size * (highest / rate) if rate else math.inf
    if max_size is None and math.isinf(grown):
        raise ValueError(
            f"learning_rates fall to {rate:g}, where minibatches would grow without end: give "
            "max_size"
        )
    if max_size is not None and check_int("max_size", max_size) < size:
        raise ValueError(f"max_size must be at least the minibatch size {size}, got {max_size}")
    return round(grown if max_size is None else min(grown, max_size))


def _steps(times: Sequence[int], values: Sequence[Number]) -> tuple[tuple[int, Number], ...]:
    """Return each value with the number of samples that it holds for before it."""
    pairs = zip(times, values, strict=True)
    begins = [next(same) for _, same in groupby(pairs, lambda pair: pair[1])]
    lengths: list[int] = [end - begin for (begin, _), (end, _) in pairwise(begins)]
    return tuple(zip([*lengths, 1], [value for _, value in begins], strict=True))


def _num_steps(sizes: StepSchedule[int], num_samples: int) -> int:
    """Return the number of full minibatches; the last is not counted in full."""
    count = time = 0
    begins = [one for one in _begins("minibatch_sizes", sizes) if one < num_samples]
    for begin, end in pairwise([*begins, num_samples]):
        size = sizes[begin]
        steps = max(0, -(-(end - time) // size))
        count, time = count + steps, time + steps * size
    return count
