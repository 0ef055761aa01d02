"""Learning rates that fall along a cosine, in cuts."""

import math
from itertools import pairwise

from sweephand.base.checks import check_int, check_number
from sweephand.source.schedules.schedule import Follows, StepSchedule
from sweephand.train.schedules.learning_rates import learning_parameter_schedule


def cosine_schedule(
    rate: float,
    num_samples: int,
    minibatch_size: int | None = None,
    *,
    min_rate: float = 0.0,
    cut: float = 2.0,
    num_cuts: int = 6,
    follows: Follows = "applied",
) -> StepSchedule[float]:
    """Make a schedule of learning rates that follow a cosine in steps.

    The cosine falls from ``rate`` at the beginning to ``min_rate`` at ``num_samples``. Once it
    reaches ``rate / cut ** k``, that is the rate until it reaches the next such value; after
    the last cut the rate stays. `seesaw` needs such cuts; `cosine` is the cosine itself.

    Parameters
    ----------
    rate : float
        The first rate.
    num_samples : int
        Samples until the cosine has fallen.
    minibatch_size : int, optional
        The reference size, as for `learning_parameter_schedule`.
    min_rate : float
        The rate at the end of the cosine; there are no cuts below it.
    cut : float
        Divisor of the rate at each cut, above 1.
    num_cuts : int
        The most cuts.
    follows : {"applied", "consumed"}
        The samples that move the schedule; those of skipped steps are only consumed.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> import sweephand as sh
    >>> rates = sh.train.cosine_schedule(0.4, 900_000, num_cuts=3)
    >>> [rates[t] for t in (0, 449_999, 450_000, 600_000, 800_000)]
    [0.4, 0.4, 0.2, 0.1, 0.05]
    """
    length = check_int("num_samples", num_samples)
    _check_number("rate", rate, above=0)
    _check_number("cut", cut, above=1)
    if not 0 <= check_number("min_rate", min_rate) < rate:
        raise ValueError(f"min_rate must be at least 0 and below rate, got {min_rate!r}")
    begins = {0: float(rate)}
    for k in range(1, check_int("num_cuts", num_cuts) + 1):
        value = rate / cut**k
        if value <= min_rate:
            break
        height = (value - min_rate) / (rate - min_rate)
        begins[round(length * math.acos(2 * height - 1) / math.pi)] = value
    lengths = [end - begin for begin, end in pairwise(begins)]
    steps = list(zip([*lengths, 1], begins.values(), strict=True))
    made = learning_parameter_schedule(steps, minibatch_size, epoch_size=1, follows=follows)
    assert isinstance(made, StepSchedule)
    return made


def _check_number(name: str, value: object, above: int) -> None:
    if not above < check_number(name, value) < math.inf:
        raise ValueError(f"{name} must be finite and above {above}, got {value!r}")
