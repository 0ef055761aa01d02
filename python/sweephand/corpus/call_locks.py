"""Call locks of the user's objects: their running calls, serialised where needed."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache


class CallLock:
    """Call lock of one object of the user, with the names of its running calls.

    A thread that is in may come in again: the code may call itself in ways of its own.
    """

    def __init__(self, *, several: bool = False) -> None:
        self._several = several
        self._lock = threading.RLock()
        self._calls: list[tuple[int, object]] = []  # thread, and the object that it called

    @contextmanager
    def hold(self, call: object) -> Iterator[None]:
        """Hold the lock during calls; ``str(call)`` names them."""
        entry = threading.get_ident(), call
        with nullcontext() if self._several else self._lock:
            self._calls.append(entry)
            try:
                yield
            finally:
                self._calls.remove(entry)

    @property
    def is_exclusive(self) -> bool:
        """True if it lets one thread in at a time."""
        return not self._several

    @property
    def calls(self) -> list[str]:
        """Names of the running calls."""
        return [str(call) for _, call in self._calls]

    def check_not_mine(self) -> None:
        """Raise RuntimeError if this thread would wait for its own call."""
        for thread, call in self._calls:
            if thread == threading.get_ident() and not self._several:
                raise RuntimeError(
                    f"{call} asks a source that needs the same object, which serves one call "
                    "at a time: it would wait for itself"
                )

    def _forget_other_threads(self) -> None:
        self._lock = threading.RLock()  # one that has it gives back the old one
        self._calls = [entry for entry in self._calls if entry[0] == threading.get_ident()]


_locks: weakref.WeakValueDictionary[int, CallLock] = weakref.WeakValueDictionary()
_making = threading.RLock()


@cache
def _hook_forks() -> None:
    os.register_at_fork(
        before=_making.acquire,
        after_in_parent=_making.release,
        after_in_child=_forget_other_threads,
    )


def call_lock_of(one: object) -> CallLock:
    """Return the call lock of an object, shared by all its callers, which hold on to it."""
    with _making:
        _hook_forks()
        call_lock = _locks.get(id(one))
        if call_lock is None:
            call_lock = _locks[id(one)] = CallLock()
        return call_lock


def _forget_other_threads() -> None:
    """Let a forked child go on: threads that were in the user's code are not there."""
    _making.release()
    for call_lock in list(_locks.values()):
        call_lock._forget_other_threads()
