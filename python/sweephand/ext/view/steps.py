"""The steps of a fixed minibatch size, and where they begin."""

from __future__ import annotations

import time as clock
from bisect import bisect_right

from sweephand.extend import Cursor, Position

_SECONDS = 2.0


class TooFar(Exception):
    """Planning all steps before a place takes longer than a page may."""


class Steps:
    """The steps of one size from a nominal time on, each answer within some seconds.

    Those of equal sequences are computed. Others are planned as far as they are asked for.
    Their `count` is None until it is known. The cursor is moved.
    """

    def __init__(
        self, cursor: Cursor, size: int, start: int = 0, seconds: float = _SECONDS
    ) -> None:
        self.count: int | None = None
        self.start = start
        self._cursor = cursor
        self._seconds = seconds
        self._next = self._begin_at(start)
        self._plans = cursor.plan.minibatches(self._next, size)
        self._begins: list[Position] = []
        self._times: list[int] = []
        self._stride = _samples_of_each(cursor, size)
        if self._stride is not None and not cursor.plan.is_infinite:
            self.count = max(0, -((start - cursor.plan.limit) // self._stride))

    def begin_of(self, step: int) -> Position | None:
        """Return the place where a step begins; None if the data end before it.

        TooFar if it takes too long to plan this many steps.
        """
        if self._stride is not None:
            is_there = self.count is None or step < self.count
            return self._begin_at(self.start + step * self._stride) if is_there else None
        until = clock.monotonic() + self._seconds
        while len(self._begins) <= step and self.count is None:
            self._plan_one(until)
        return self._begins[step] if step < len(self._begins) else None

    def step_at(self, time: int) -> int | None:
        """Return the step that holds a nominal time; None beyond the last.

        TooFar if it takes too long to plan this many steps.
        """
        if self._stride is not None:
            step = (time - self.start) // self._stride
            return step if self.count is None or step < self.count else None
        until = clock.monotonic() + self._seconds
        while self.count is None and self._next.time <= time:
            self._plan_one(until)
        if not self._times or (self.count is not None and time >= self._next.time):
            return None
        return max(0, bisect_right(self._times, time) - 1)

    def _begin_at(self, time: int) -> Position:
        self._cursor.go_to_time(time)
        return self._cursor.position

    def _plan_one(self, until: float) -> None:
        if len(self._begins) % 64 == 0 and clock.monotonic() > until:
            raise TooFar
        planned = next(self._plans, None)
        if planned is None:
            self.count = len(self._begins)
            return
        self._begins.append(self._next)
        self._times.append(planned.nominal_time)
        self._next = planned.next_position


def _samples_of_each(cursor: Cursor, size: int) -> int | None:
    """Return the samples of every step, or None where steps have to be planned."""
    plan = cursor.plan
    if plan.events or not plan.corpus.has_sweeps or plan.count_equal(0, 1, size) is None:
        return None
    length = plan.corpus.core.common_size
    return max(1, size // length) * length
