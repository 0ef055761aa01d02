"""Choice of where quick maps run, by measuring both ways."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

_KEPT = 3  # measurements of either way
_GAIN = 0.85  # of the caller's time that threads may take to be worth theirs
_TRIALS = 16, 1024  # minibatches between looks at the other way, at first and at most


class Quicker:
    """Choice between the calling thread and other threads, for calls of a map that are short.

    A call that holds the GIL is no faster in two threads, and costs more there; nothing but
    the clock shows which calls do. So both ways are measured, the worse one rarely.
    Safe for several threads.
    """

    def __init__(self) -> None:
        self._seconds: dict[bool, deque[float]] = {
            is_here: deque(maxlen=_KEPT) for is_here in (True, False)
        }
        self._interval = _TRIALS[0]
        self._left = self._interval  # until the other way is tried again
        self._lock = threading.Lock()

    def is_here(self) -> bool:
        """Return True if the calling thread is to map the next sequences."""
        with self._lock:
            for is_here, seconds in self._seconds.items():
                if len(seconds) < _KEPT:
                    return is_here
            self._left -= 1
            return self._best() == (self._left > 0)

    def add(self, seconds: float, *, is_here: bool) -> None:
        """Record the time that a sequence took one way."""
        with self._lock:
            was_best = self._best()
            self._seconds[is_here].append(seconds)
            if self._left > 0:
                return
            changed = self._best() != was_best
            self._interval = _TRIALS[0] if changed else min(2 * self._interval, _TRIALS[1])
            self._left = self._interval

    def _best(self) -> bool:
        here, there = self._seconds[True], self._seconds[False]
        return not there or not here or _middle(there) > _GAIN * _middle(here)


def _middle(measured: Iterable[float]) -> float:
    """Return the median, the larger of two in the middle; `statistics` takes 4 ms to import."""
    found = sorted(measured)
    return found[len(found) // 2]
