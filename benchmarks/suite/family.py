"""Processor time of a process and all that it began."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .turn import Clock, Steps, Turn

AHEAD = 4  # minibatches: those of torch, two for each of two workers


def with_workers(steps: Iterator[int]) -> Steps:
    """Count the processor time of worker processes too, which must live on; yield `Turn`.

    What was made ahead in the pause before is taken first.
    """
    next(steps)
    while True:
        for _ in range(AHEAD):
            next(steps)
        clock, before = Clock(), _seconds_of(os.getpid())
        with clock.running():
            count = sum(next(steps) for _ in range(8))
        yield Turn(count, clock.wall, _seconds_of(os.getpid()) - before)


def _seconds_of(process: int) -> float:
    seconds = 0.0
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):  # it has ended meanwhile
            seconds += int((thread / "schedstat").read_text().split()[0]) / 1e9
            children = (thread / "children").read_text().split()
            seconds += sum(_seconds_of(int(child)) for child in children)
    return seconds
