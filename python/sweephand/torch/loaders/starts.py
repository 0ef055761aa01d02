"""Which processes were started together."""

from __future__ import annotations

import os
import threading
from typing import NamedTuple


class Start(NamedTuple):
    """How a process was started: by which thread, and after how many others.

    A loader starts its processes one after the other, in one thread: their numbers are
    consecutive.
    """

    process: int
    thread: int
    number: int


class _Starts(threading.local):
    """What this thread has started."""

    number = 0

    def next(self) -> Start:
        self.number += 1
        self.last = Start(os.getpid(), threading.get_ident(), self.number)
        return self.last


_starts = _Starts()
_of_this_process: list[Start] = []
_counting: list[bool] = []


def count_forks() -> None:
    """Have processes know their start that are forked from now on."""
    if not _counting:
        _counting.append(True)
        os.register_at_fork(before=_starts.next, after_in_child=_remember)


def spawned() -> Start:
    """Return the start of a process that is spawned now, and told of it."""
    return _starts.next()


def forked() -> Start:
    """Return the start of this process, which was forked."""
    return _of_this_process[0]


def _remember() -> None:
    _of_this_process[:] = [_starts.last]
