"""A check that is shared by all callers that arrived before it began."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition

_MOST = 4  # checks at a time: a caller that has just missed one gets the next soon


@dataclass
class _Turns:
    """Checks of one process, counted."""

    process: int = field(default_factory=os.getpid)
    changed: Condition = field(default_factory=Condition)
    begun: int = 0
    passed: int = 0  # the last of those that found nothing wrong
    running: int = 0


class SharedCheck:
    """A check that is shared by all callers that arrived before it began.

    Threads that read an object ask afterwards if it is still the same: one request, begun after
    all of them have read, answers them together.

    Examples
    --------
    >>> check = SharedCheck()
    >>> check(lambda: print("asked"))
    asked
    """

    def __init__(self) -> None:
        self._turns = _Turns()

    def __reduce__(self) -> tuple[type[SharedCheck], tuple[()]]:
        """Pickle as a new object: another process has threads of its own."""
        return type(self), ()

    def __call__(self, check: Callable[[], None]) -> None:
        """Wait for a check that began after the call, and raise its error if it fails."""
        if self._turns.process != os.getpid():
            self._turns = _Turns()  # the thread that checked has stayed in the parent
        turns = self._turns
        with turns.changed:
            wanted = turns.begun + 1
            turns.changed.wait_for(lambda: turns.passed >= wanted or turns.running < _MOST)
            if turns.passed >= wanted:
                return
            turns.begun = mine = turns.begun + 1
            turns.running += 1
        passed = False
        try:
            check()
            passed = True
        finally:
            with turns.changed:
                turns.running -= 1
                turns.passed = max(turns.passed, mine if passed else 0)
                turns.changed.notify_all()
