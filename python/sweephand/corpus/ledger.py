"""The ledger of a corpus: damaged items that are skipped and listed, within a budget."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from sweephand.corpus.ids import SequenceIds
from sweephand.errors import DataError

_MOST_LISTED = 10_000


class Ledger:
    """Damaged and malformed items of a corpus, each listed once. Safe for several threads.

    `max_errors` may be passed over; `errors` has the first 10,000 of them.

    Examples
    --------
    >>> ledger = Ledger(max_errors=1)
    >>> ledger.add(DataError("no JSON", "a.jsonl", 120))
    >>> [str(error) for error in ledger.errors]
    ['a.jsonl @ 120: no JSON']
    """

    def __init__(self, max_errors: int = 0) -> None:
        self.max_errors = max_errors
        self.errors: list[DataError] = []
        self._lock = threading.Lock()
        self._places: set[str] = set()
        self._num_charged = 0

    @property
    def num_left(self) -> int:
        """The number of further items that may be skipped."""
        return self.max_errors - self._num_charged

    def add(self, error: DataError, *, is_charged: bool = True) -> None:
        """List an item, once even if it is met again in another sweep.

        It is raised if the budget is used up; one that follows from a charged one is free.
        """
        place = str(error)
        with self._lock:
            if place in self._places:
                return
            if is_charged:
                if self.num_left < 1:
                    if self.max_errors:
                        error.add_note(f"{self.max_errors} others are within max_errors")
                    raise error
                self._num_charged += 1
            self._places.add(place)
            if len(self.errors) < _MOST_LISTED:
                self.errors.append(error)

    def charge(self, count: int) -> None:
        """Count items without listing them; DataError if the budget does not hold them."""
        with self._lock:
            if count > self.num_left:
                raise DataError(f"more than {self.max_errors} errors, the limit of max_errors")
            self._num_charged += count

    def report_by(self, ids: SequenceIds) -> Callable[[DataError], None]:
        """Return the callback by which the core reports items, with ids for its numbers."""

        def report(error: DataError) -> None:
            reason, file, offset, chunk, stream, sequence, line = error.args
            if sequence is not None:
                sequence = ids.names(np.array([sequence], np.uint64))[0]
            self.add(type(error)(reason, file, offset, chunk, stream, sequence, line))

        return report
