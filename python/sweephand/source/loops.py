"""Loops over the minibatches of a source: to the end of its data, or of a sweep."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from sweephand.errors import SweephandHint
from sweephand.source.schedules import Size, SizeSchedule, is_schedule, size_at, size_of

if TYPE_CHECKING:
    from sweephand import _core
    from sweephand.minibatch.minibatch import Minibatch
    from sweephand.minibatch.share import Position
    from sweephand.source.cursor import Cursor


WRITE_LOOP = (
    "write `for minibatch in source.sweep(size)`, one sweep a loop, or `for minibatch in "
    "source.minibatches(size)`, to the end of the data"
)
FOR_TORCH = (
    "a torch loader is sh.torch.DataLoader(sh.torch.IterableDataset(source, size)), with "
    "num_workers= and the like"
)


def checked_size(
    cursor: Cursor, size: Size, num_partitions: int, partition_index: int
) -> int | SizeSchedule:
    """Return a size or schedule; ValueError if its first minibatch cannot be served."""
    plan = cursor.plan
    sizes = size_of(size, plan.sweep_samples)
    plan.request(size_at(sizes, cursor.time), num_partitions, partition_index)
    return sizes


def loop(
    cursor: Cursor, size: int | SizeSchedule, num_partitions: int, partition_index: int
) -> Iterator[Minibatch]:
    """Iterate over minibatches until the end of data."""
    if cursor.has_run_out and cursor.time >= cursor.plan.limit:
        warnings.warn(
            "this loop over minibatches is empty, as an earlier one has come to the end of "
            "the data; for one sweep after the other make the source without max_sweeps "
            "and loop over source.sweep(size), or set source.current_position = 0",
            SweephandHint,
            stacklevel=2,
        )
    share = num_partitions, partition_index
    same = None if is_schedule(size) else cursor.request(cast(int, size), *share)
    while True:
        request = same or cursor.request(size_at(size, cursor.time), *share)
        minibatch = cursor.next(request)
        if not minibatch:
            cursor.has_run_out = True
            return
        yield minibatch


def check_not_ended(cursor: Cursor) -> None:
    """Raise RuntimeError where a loop over a sweep could only be empty."""
    time = cursor.time
    if time >= cursor.plan.limit:
        raise RuntimeError(
            f"the source has ended, at nominal time {time}; an iteration is one sweep: make it "
            "without max_sweeps, or set source.current_position to go back"
        )


class SweepLoop:
    """A sweep of a source, or the rest of it, in minibatches; see `MinibatchSource.sweep`.

    It may be looped over again: then it is the next sweep.
    """

    def __init__(
        self,
        cursor: Cursor,
        size: int | SizeSchedule,
        num_partitions: int,
        partition_index: int,
    ) -> None:
        self._cursor = cursor
        self._size = size
        self._share = num_partitions, partition_index
        self._begin: Position | None = None  # of the loop under way
        self._counted: tuple[Position, int] | None = None

    def __iter__(self) -> Iterator[Minibatch]:
        """Iterate from the position of the source to the end of the sweep."""
        cursor = self._cursor
        check_not_ended(cursor)
        self._begin = cursor.position
        end = cursor.plan.end_of_sweep(self._begin.time)
        same = None if is_schedule(self._size) else self._request(self._begin.time)
        try:
            while (time := cursor.time) < end:
                request = same or self._request(time)
                minibatch = cursor.next(request)
                if not minibatch:
                    return
                yield minibatch
        finally:
            self._begin = None

    def _request(self, time: int) -> _core.compose.Request:
        size = size_at(self._size, time)
        return self._cursor.request(size, *self._share, crosses_sweeps=False)

    def __len__(self) -> int:
        """Return the minibatches of the loop under way, or else of the next loop.

        They are planned from lengths, once; with equal lengths nothing is.
        """
        begin = self._begin or self._cursor.position
        if self._counted is None or self._counted[0] != begin:
            self._counted = begin, self._count(begin)
        return self._counted[1]

    def __repr__(self) -> str:
        return f"SweepLoop(size={self._size}, of {self._cursor.plan.sweep_samples} samples)"

    def _count(self, begin: Position) -> int:
        plan = self._cursor.plan
        if not plan.corpus.sizing.fingerprinted:
            raise TypeError("lengths of sequences are known only when their chunks are loaded")
        end = min(plan.end_of_sweep(begin.time), plan.limit)
        equal = plan.count_equal(begin.time, end, self._size)
        if equal is not None:
            return equal
        count = 0
        for planned in plan.minibatches(begin, self._size, *self._share, crosses_sweeps=False):
            count += 1
            if planned.next_position.time >= end:
                break
        return count
