"""The time that passes inside and outside of a trainer."""

import time


class Stopwatch:
    """Measures the time inside and outside of the trainer."""

    def __init__(self) -> None:
        self._left: float | None = None  # when the trainer was last left
        self._entered = 0.0

    def enter(self) -> None:
        """Note that the trainer is entered."""
        self._entered = time.perf_counter()

    def leave(self) -> tuple[float, float]:
        """Return the seconds since it was last left, and those before it was entered."""
        now = time.perf_counter()
        left = self._entered if self._left is None else self._left
        self._left = now
        return now - left, self._entered - left

    def forget(self) -> None:
        """Discard the time since the trainer was left: it was spent on something else."""
        self._left = None
