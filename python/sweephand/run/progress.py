"""Progress of a worker's task, in memory that other threads and processes may read."""

from __future__ import annotations

import os
import time
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from sweephand import _core

_PLACE = Struct("=qd")


class Progress:
    """Number of the item that is at work, and the time since when.

    Times are of the monotonic clock, which all processes share.
    """

    def __init__(self, memory: NDArray[np.uint8] | None = None) -> None:
        self.memory = np.zeros(_PLACE.size, np.uint8) if memory is None else memory
        self._view = memoryview(self.memory)  # type: ignore[arg-type]

    @classmethod
    def shared(cls, descriptor: int) -> Progress:
        """Return the progress in shared memory; its descriptor may be closed."""
        os.ftruncate(descriptor, _PLACE.size)
        return cls(_core.read.map_segment(descriptor, _PLACE.size))

    def begin(self, number: int) -> None:
        """Note that an item is begun."""
        _PLACE.pack_into(self._view, 0, number, time.monotonic())

    def end(self) -> float:
        """Note that it is over, and return how long it took, in seconds."""
        _, since = _PLACE.unpack_from(self._view)
        now = time.monotonic()
        _PLACE.pack_into(self._view, 0, -1, now)
        return now - float(since)

    @property
    def at(self) -> tuple[int | None, float]:
        """The item and since when it is at work; None between items, since the last."""
        number, since = _PLACE.unpack_from(self._view)
        return (number if since and number >= 0 else None), since
