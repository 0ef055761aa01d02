"""A minibatch size: a number, or a schedule of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard, cast

import numpy as np

if TYPE_CHECKING:
    from sweephand.source.schedules import Spec


class SizeSchedule(Protocol):
    """Minibatch sizes, indexed by the samples seen."""

    def __getitem__(self, samples_seen: int, /) -> int:
        """Return the size of the minibatch that begins there."""


Size: TypeAlias = "Spec[int] | SizeSchedule"


def size_of(size: Size, sweep_samples: int) -> int | SizeSchedule:
    """Return a size or schedule, by whichever notation it is given; epochs are sweeps."""
    if isinstance(size, int):
        return size
    from sweephand.source.schedules import StepSchedule, minibatch_size_schedule

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
