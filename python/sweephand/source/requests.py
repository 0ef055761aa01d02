"""Requests for minibatches: how many samples, for which of how many workers."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Protocol, TypeGuard, cast

import numpy as np

from sweephand import _core
from sweephand.checks import check_int
from sweephand.layouts import Layout
from sweephand.source.balance import cost_of
from sweephand.source.limits import FULL_DATA_SWEEP
from sweephand.source.memory import MemoryNeed
from sweephand.source.schedules.minibatch_sizes import minibatch_size_schedule
from sweephand.source.schedules.schedule import StepSchedule
from sweephand.source.schedules.spec import Spec
from sweephand.source.settings import Settings


class SizeSchedule(Protocol):
    """Minibatch sizes, indexed by the samples seen."""

    def __getitem__(self, samples_seen: int, /) -> int:
        """Return the size of the minibatch that begins there."""


Size = Spec[int] | SizeSchedule


def size_of(size: Size, sweep_samples: int) -> int | SizeSchedule:
    """Return a size or schedule, by whichever notation it is given; epochs are sweeps."""
    if isinstance(size, str | list | tuple):
        size = minibatch_size_schedule(size, sweep_samples)
    if isinstance(size, StepSchedule) and size.epoch_size is None:
        return replace(size, epoch_size=sweep_samples)
    return cast(int | SizeSchedule, size)


def is_schedule(size: int | SizeSchedule) -> TypeGuard[SizeSchedule]:
    """Whether a size is one for every time, and not one for all."""
    return hasattr(size, "__getitem__") and not isinstance(size, np.generic)


def size_at(size: int | SizeSchedule, time: int) -> int:
    """Return a size as it is, or what a schedule says of a time."""
    return size[time] if is_schedule(size) else cast(int, size)


def even_workers(num_lanes: int) -> list[int]:
    """Return the numbers of workers that have equally many lanes each."""
    return [count for count in range(1, num_lanes + 1) if num_lanes % count == 0]


class Requests:
    """Checks requests, and remembers the last one."""

    def __init__(
        self, settings: Settings, layout: Layout, memory: MemoryNeed, *, is_endless: bool
    ) -> None:
        self._settings = settings
        self._is_endless = is_endless
        self._layout = layout
        self._memory = memory
        self._last: tuple[tuple[int, int, int, bool], _core.compose.Request] | None = None

    def get(
        self, size: int, workers: int, rank: int, crosses_sweeps: bool = True
    ) -> _core.compose.Request:
        """Return the request, checked if it is not the last one again."""
        key = (size, workers, rank, crosses_sweeps)
        last = self._last  # read once: another thread may ask too
        # Known is known: but 4.0 and True are equal to integers, and no sizes or ranks.
        are_ints = type(size) is int and type(workers) is int and type(rank) is int
        if last is None or not are_ints or last[0] != key:
            request = self.check(size, workers, rank, crosses_sweeps=crosses_sweeps)
            last = self._last = (key, request)
        return last[1]

    def check(
        self,
        size: int,
        workers: int,
        rank: int,
        num_skipped: int = 0,
        crosses_sweeps: bool = True,
    ) -> _core.compose.Request:
        """Return the request; ValueError if it is none that the source can serve."""
        check_int("num_data_partitions", workers, 1, 2**31)
        check_int("partition_index", rank, 0, workers)
        lanes = self._settings.lanes
        by_lanes = self._layout.shares_by_lanes and not self._settings.keeps_order
        if by_lanes and workers > lanes:
            even = ", ".join(map(str, even_workers(lanes)))
            raise ValueError(
                f"num_data_partitions must be in [1, {lanes}], the number of lanes, "
                f"got {workers}; {even} have equally many lanes each; a larger num_lanes, "
                "which is another order, serves more"
            )
        given: object = size
        if not isinstance(given, Integral) or size != FULL_DATA_SWEEP:
            check_int("minibatch_size_in_samples", size, 1, 2**63)
        if size == FULL_DATA_SWEEP and self._is_endless:
            raise ValueError(
                "FULL_DATA_SWEEP is for one corpus: a mixture that repeats has no sweep; give "
                "a number of samples"
            )
        self._check_memory(size)
        samples = 2**64 - 1 if size == FULL_DATA_SWEEP else size
        return _core.compose.Request(
            samples,
            workers,
            rank,
            num_skipped,
            crosses_sweeps=crosses_sweeps and self._settings.crosses_sweeps,
            balance=cost_of(self._settings.balance),
        )

    def last_size(self) -> int:
        """Return the size that was asked for last; 1 where it does not matter."""
        if not self._layout.depends_on_size:
            return 1
        if self._last is None:
            raise ValueError(
                f"with {type(self._layout).__name__} it depends on the minibatch size when a "
                "sequence comes; ask for a minibatch first"
            )
        return self._last[0][0]

    def _check_memory(self, size: int) -> None:
        limit = self._settings.memory_limit
        if limit is None:
            return
        needed = self._memory.bound(size)
        if needed > limit:
            raise ValueError(
                f"minibatches of {size} samples need about {needed} bytes, memory_limit is "
                f"{limit}; lower the size, window or prefetch"
            )
