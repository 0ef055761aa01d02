"""Progress of a worker's task, in memory that other threads and processes may read."""

from __future__ import annotations

import time
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.turns import Turn

if TYPE_CHECKING:
    from sweephand.maps.task import MapResult, MapTask

_PLACE = Struct("=qd")
PROGRESS_BYTES = _PLACE.size


class Progress:
    """Number of the sequence that is mapped, and the time since when.

    Times are of the monotonic clock, which all processes share.

    Parameters
    ----------
    memory : ndarray of uint8, shape (16,), optional
        As `map_each` of the core writes it; zeros by default.
    """

    def __init__(self, memory: NDArray[np.uint8] | None = None) -> None:
        self.memory = np.zeros(PROGRESS_BYTES, np.uint8) if memory is None else memory
        self._view = memoryview(self.memory)  # type: ignore[arg-type]

    def begin(self, number: int) -> None:
        """Note that the map is called for a sequence."""
        _PLACE.pack_into(self._view, 0, number, time.monotonic())

    def end(self) -> float:
        """Note that the call is over, and return how long it took, in seconds."""
        _, since = _PLACE.unpack_from(self._view)
        now = time.monotonic()
        _PLACE.pack_into(self._view, 0, -1, now)
        return now - float(since)

    @property
    def at(self) -> tuple[int | None, float]:
        """The sequence and since when it is mapped; None between calls, since the last."""
        number, since = _PLACE.unpack_from(self._view)
        return (number if since and number >= 0 else None), since


class RunningTask:
    """Name of a task that is carried out, by the sequence that is mapped."""

    def __init__(self, task: MapTask, progress: Progress) -> None:
        self._task = task
        self._progress = progress

    def __str__(self) -> str:
        number, _ = self._progress.at
        return self._task.describe(number or 0)


def carry_out(task: MapTask, progress: Progress, turn: Turn) -> MapResult:
    """Map the sequences of a task, which `turn` names meanwhile."""
    with turn.take(RunningTask(task, progress)):
        return task.do(progress)
