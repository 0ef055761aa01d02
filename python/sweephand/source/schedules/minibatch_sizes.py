"""Schedules of minibatch sizes."""

from sweephand.base.checks import check_int
from sweephand.source.limits import FULL_DATA_SWEEP
from sweephand.source.schedules.schedule import StepSchedule
from sweephand.source.schedules.spec import Spec, is_single, read_steps


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
    steps = read_steps(spec, _minibatch_size, int)
    if epoch_size != 1 and is_single(spec):
        raise ValueError(f"epoch_size has no meaning with the single value {spec!r}")
    return StepSchedule(steps, check_int("epoch_size", epoch_size), follows="consumed")


def _minibatch_size(value: object) -> int:
    return check_int("a minibatch size", value)
