"""What a contender did in a turn, and the clocks that say so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Turn(NamedTuple):
    """How much was done, in how many seconds: by the clock on the wall, and of all threads."""

    count: float
    wall: float
    processor: float
    grown: float = 0  # bytes of memory, at most


Steps = Iterator[int | Turn]


def again(work: Callable[[], object], count: int) -> Steps:
    """Do a work of so many samples or bytes in every step."""
    yield 0
    while True:
        work()
        yield count


class Clock:
    """Adds up seconds."""

    def __init__(self) -> None:
        self.wall = self.processor = 0.0

    now = staticmethod(time.perf_counter)

    @contextmanager
    def running(self) -> Iterator[None]:
        wall, processor = self.now(), time.process_time()
        try:
            yield
        finally:
            self.processor += time.process_time() - processor
            self.wall += self.now() - wall

    def turn(self, count: float = 1, grown: float = 0) -> Turn:
        return Turn(count, self.wall, self.processor, grown)
