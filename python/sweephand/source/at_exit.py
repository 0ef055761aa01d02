"""Closes sources at the end of the process, while their threads still have an interpreter."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from typing import Protocol

_EXIT_SECONDS = 1.0


class ClosedAtExit(Protocol):
    """Something with threads."""

    def close_within(self, seconds: float) -> bool:
        """Close, wait up to `seconds` for the threads, and return True if they have ended."""


_open: weakref.WeakSet[ClosedAtExit] = weakref.WeakSet()


def close_at_exit(one: ClosedAtExit) -> None:
    """Have something closed at the end of the process, if it still lives then."""
    if not _open:  # again, to run before functions registered meanwhile
        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _open.add(one)


def _close_all() -> None:
    """Ask all to end, then wait for all together: the process ends anyway."""
    closing = list(_open)
    for one in closing:
        one.close_within(0.0)
    end = time.monotonic() + _EXIT_SECONDS
    for one in closing:
        one.close_within(max(0.0, end - time.monotonic()))
    if threading.active_count() > 1:
        time.sleep(0.05)  # daemon threads that were in a call leave it while they can
