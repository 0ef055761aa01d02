"""The steps of a fixed minibatch size, and where they begin."""

from __future__ import annotations

import time as clock
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweephand.minibatch.position import Position
    from sweephand.source.source import MinibatchSource

_SECONDS = 2.0


class TooFar(Exception):
    """Planning all steps before a place takes longer than a page may."""


class Steps:
    """The steps of one size from a nominal time on, planned as far as they are asked for.

    Parameters
    ----------
    source : MinibatchSource
        It is moved to the start.
    size : int
        Samples in a minibatch, over all workers.
    start : int
        Nominal time at which step 0 begins.
    seconds : float
        That planning may take for one answer.

    Attributes
    ----------
    end : Position or None
        The place after the last step, once it is found.
    """

    def __init__(
        self, source: MinibatchSource, size: int, start: int = 0, seconds: float = _SECONDS
    ) -> None:
        self.end: Position | None = None
        self.start = start
        self._seconds = seconds
        source.current_position = start
        self._next = source.position
        self._plans = source.timeline.minibatches(self._next, size)
        self._begins: list[Position] = []
        self._times: list[int] = []

    def __len__(self) -> int:
        """Return how many steps are planned so far; all, once the end is found."""
        return len(self._begins)

    def begin_of(self, step: int) -> Position | None:
        """Return the place where a step begins; None if the data end before it.

        Raises
        ------
        TooFar
            If it takes too long to plan so many steps.
        """
        until = clock.monotonic() + self._seconds
        while len(self._begins) <= step and self.end is None:
            self._plan_one(until)
        return self._begins[step] if step < len(self._begins) else None

    def step_at(self, time: int) -> int | None:
        """Return the step that delivers what begins at a nominal time; None beyond the last.

        Raises
        ------
        TooFar
            If it takes too long to plan so many steps.
        """
        until = clock.monotonic() + self._seconds
        while self.end is None and self._next.time <= time:
            self._plan_one(until)
        if not self._times or (self.end is not None and time >= self.end.time):
            return None
        return max(0, bisect_right(self._times, time) - 1)

    def _plan_one(self, until: float) -> None:
        if len(self._begins) % 64 == 0 and clock.monotonic() > until:
            raise TooFar
        planned = next(self._plans, None)
        if planned is None:
            self.end = self._next
            return
        self._begins.append(self._next)
        self._times.append(planned.nominal_time)
        self._next = planned.next_position
