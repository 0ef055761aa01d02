"""The decision of all workers about a step."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sweephand.train.learners.finite_check import Cause

Reduce: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def agree(
    cause: Cause, scale: float, counter: int, reduce: Reduce, others: Sequence[float] = ()
) -> tuple[Cause, list[float]]:
    """Return the worst cause of all workers and the largest others, by one reduction.

    RuntimeError is raised if their loss scales or counters differ: they have parted before.
    """
    # A maximum of -x is a minimum of x: where both are equal, so are all workers.
    mine = np.array([cause, scale, -scale, counter, -counter, *others], np.float64)
    all_of_them = np.asarray(reduce(mine.copy()), np.float64)
    if all_of_them.shape != mine.shape:
        raise ValueError(f"reduce must return shape {mine.shape}, got {all_of_them.shape}")
    worst, *bounds = all_of_them.tolist()
    for name, own, most, minus_least in (
        ("loss scale", scale, *bounds[:2]),
        ("counter", counter, *bounds[2:4]),
    ):
        if most != -minus_least:
            raise RuntimeError(
                f"the workers disagree on the {name}: it lies between {-minus_least} and "
                f"{most}, here it is {own}"
            )
    return Cause(int(worst)), bounds[4:]
