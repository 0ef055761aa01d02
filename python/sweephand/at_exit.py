"""What is closed before the interpreter is taken down: its threads may need it."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from typing import Protocol


class ClosedAtExit(Protocol):
    """Something with threads."""

    def close_for_exit(self) -> None:
        """Close without waiting long; the process ends anyway."""


_open: weakref.WeakSet[ClosedAtExit] = weakref.WeakSet()


def close_at_exit(one: ClosedAtExit) -> None:
    """Have something closed at the end of the process, if it still lives then."""
    if not _open:  # again, so that it comes before what was registered meanwhile
        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _open.add(one)


def _close_all() -> None:
    for one in list(_open):
        one.close_for_exit()
    if threading.active_count() > 1:
        time.sleep(0.05)  # daemon threads that were in a call leave it while they can
