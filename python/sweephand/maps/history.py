"""Time that a map took for every sequence, to predict the next time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_GUESS = 1e-3  # seconds a sequence, before any was mapped


def guess_seconds(num_bytes: NDArray[np.float64], mean: float = _GUESS) -> NDArray[np.float64]:
    """Return how long sequences may take of which only the bytes are known, in seconds.

    `mean` is how long one may take.
    """
    return (
        num_bytes * (mean / max(1.0, float(num_bytes.mean()))) if len(num_bytes) else num_bytes
    )


NumBytes = Callable[[], NDArray[np.float64]]
"""Returns the bytes of sequences, which are counted only where times are unknown."""


class MapHistory:
    """Times that a map took for the sequences of a corpus.

    One that was not mapped before is expected to take what others took for as many bytes.
    Threads may use it at once: what one of them misses only makes a guess worse.
    """

    def __init__(self, num_sequences: int) -> None:
        self._seconds = np.zeros(
            num_sequences, np.float32
        )  # 0: not known; no page before it is
        self._known_seconds = 0.0
        self._known_bytes = 0.0

    def expected(self, numbers: NDArray[np.uint64], num_bytes: NumBytes) -> NDArray[np.float64]:
        """Return how long sequences may take, in seconds: float64, (sequences,)."""
        known = self._seconds[numbers].astype(np.float64)
        if known.all():
            return known
        if not self._known_bytes:
            return guess_seconds(num_bytes())
        rate = self._known_seconds / self._known_bytes
        return np.where(known > 0, known, num_bytes() * rate)

    def add(
        self,
        numbers: NDArray[np.uint64],
        num_bytes: NumBytes,
        seconds: NDArray[np.float64],
    ) -> None:
        """Record the times of sequences."""
        seconds = np.maximum(seconds, 1e-9)
        if not self._seconds[numbers].all():
            self._known_seconds += float(seconds.sum())
            self._known_bytes += float(num_bytes().sum())
        self._seconds[numbers] = seconds
