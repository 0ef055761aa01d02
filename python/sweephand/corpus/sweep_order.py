"""Orders that belong to the data, which ``randomize=False`` delivers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class SweepOrder(Protocol):
    """The order of every unshuffled sweep."""

    def numbers(self, sweep: int, first: int, count: int) -> NDArray[np.uint64]:
        """Return the sequences at places ``[first, first + count)`` of a sweep."""

    def place(self, sweep: int, number: int) -> int:
        """Return the place of a sequence in a sweep."""


class DerivedOrder:
    """The order of a corpus derived from a corpus with an order of its own."""

    def __init__(
        self,
        order: SweepOrder,
        num_sequences: int,
        change: Callable[[NDArray[np.uint64]], NDArray[np.uint64]],
    ) -> None:
        self._order = order
        self._num_sequences = num_sequences
        self._change = change
        self._last = (-1, np.empty(0, np.uint64), np.empty(0, np.int64))

    def numbers(self, sweep: int, first: int, count: int) -> NDArray[np.uint64]:
        """Return the sequences at places ``[first, first + count)`` of a sweep."""
        return self._sweep(sweep)[0][first : first + count]

    def place(self, sweep: int, number: int) -> int:
        """Return the place of a sequence in a sweep."""
        return int(self._sweep(sweep)[1][number])

    def _sweep(self, sweep: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the sequences of a sweep by place, and the places by sequence."""
        known, numbers, places = self._last
        if known != sweep:
            numbers = self._change(self._order.numbers(sweep, 0, self._num_sequences))
            places = np.argsort(numbers)
            self._last = sweep, numbers, places
        return numbers, places
