"""The time limit for answers of stores, whichever client asks."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")

VARIABLE = "SWEEPHAND_REMOTE_TIMEOUT"
_DEFAULT = 60.0


def time_limit() -> float:
    """Return the seconds that asking a store may take, all attempts together."""
    given = os.environ.get(VARIABLE)
    if not given:
        return _DEFAULT
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"{VARIABLE} must be a positive number of seconds, got {given!r}")
    return seconds


def call_within(seconds: float, action: Callable[[], Result]) -> Result:
    """Do something that may take too long, and wait no longer for it than that.

    It runs on a thread of its own, as no client of a store can be trusted to end in time; one
    that does not is left alone, and neither the process nor anybody else waits for it.
    """
    from concurrent.futures import Future  # only here, as it brings logging

    future: Future[Result] = Future()

    def run() -> None:
        try:
            found = action()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(found)

    Thread(target=run, name="sweephand-request", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():  # the client's own
            raise
    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
