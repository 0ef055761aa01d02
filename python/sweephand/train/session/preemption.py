"""The signals that ask a run to save and exit."""

import logging
import signal
import threading
from types import FrameType
from typing import Any, Self

# EX_TEMPFAIL of sysexits.h: try again later.
PREEMPTED_EXIT_CODE = 75
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)

logger = logging.getLogger("sweephand")


class Preempted(Exception):
    """The end of training by a signal, in time to save."""


class Preemption:
    """A context in which SIGTERM and SIGUSR1 only set a flag, if that is wanted.

    Outside of the main thread it cannot, which is logged.
    """

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._handlers: dict[signal.Signals, Any] = {}
        self.is_requested = False

    def __enter__(self) -> Self:
        """Install the handlers."""
        if self._is_wanted and threading.current_thread() is not threading.main_thread():
            logger.warning("signals reach the main thread only: this run cannot be preempted")
        elif self._is_wanted:
            self._handlers = {one: signal.signal(one, self._request) for one in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous handlers."""
        for one, handler in self._handlers.items():
            signal.signal(one, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.is_requested = True
