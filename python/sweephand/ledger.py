"""What is damaged or malformed in a corpus: passed over and listed, within a budget."""

from __future__ import annotations

import threading

from sweephand.errors import DataError


class Ledger:
    """Damaged and malformed items, each listed once. Safe for several threads.

    Parameters
    ----------
    max_errors : int
        How many items may be passed over.

    Examples
    --------
    >>> ledger = Ledger(max_errors=1)
    >>> ledger.add(DataError("no JSON", "a.jsonl", 120))
    >>> [str(error) for error in ledger.errors]
    ['a.jsonl @ 120: no JSON']
    """

    def __init__(self, max_errors: int = 0) -> None:
        self._max_errors = max_errors
        self._lock = threading.Lock()
        self._places: set[str] = set()
        self.errors: list[DataError] = []

    def add(self, error: DataError) -> None:
        """List an item; one that is met again, in another sweep, is not listed twice.

        Raises
        ------
        DataError
            This one, if the budget is used up.
        """
        place = str(error)
        with self._lock:
            if place in self._places:
                return
            if len(self.errors) >= self._max_errors:
                if self._max_errors:
                    error.add_note(f"{self._max_errors} others are within max_errors")
                raise error
            self._places.add(place)
            self.errors.append(error)
