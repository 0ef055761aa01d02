"""Calls of objects and functions of the user: copies of results, locks, calls side by side."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

import numpy as np

from sweephand.corpus.casts import as_array

Given = TypeVar("Given")
Found = TypeVar("Found")

_IMMUTABLE = {type(None), bool, int, float, complex, str, bytes}


def copied(value: Any) -> Any:
    """Return a copy of a result of the user's, which may use its buffer again.

    Arrays are copied, and the containers that hold them. What has no other way to be copied
    comes as the array that it is read as.
    """
    if type(value) in _IMMUTABLE:
        return value
    if isinstance(value, np.ndarray):
        made = value.copy()
        for at in np.ndindex(value.shape) if value.dtype.hasobject else ():
            made[at] = copied(value[at])
        return made
    if isinstance(value, list | tuple):
        parts = value if set(map(type, value)) <= _IMMUTABLE else map(copied, value)
        # A tuple of names is made otherwise than a tuple.
        make = getattr(value, "_make", list if isinstance(value, list) else tuple)
        return make(parts)
    if isinstance(value, Mapping):
        return {name: copied(one) for name, one in value.items()}
    if callable(getattr(value, "detach", None)):  # a tensor
        return value.detach().clone()
    if callable(getattr(value, "copy", None)):  # a matrix, a picture, a series
        return value.copy()
    if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
        return value  # Arrow's data do not change
    try:
        return np.array(as_array("the value", value))
    except (TypeError, ValueError):
        return value  # no samples, which is an error where it is looked at


def side_by_side(
    function: Callable[[list[Given]], list[Found]], given: list[Given], num_threads: int
) -> list[Found]:
    """Apply a function to the parts of a list, on up to `num_threads` threads.

    The threads end with the calls: a process that is forked later has none to miss.
    """
    runs = min(num_threads, len(given))
    if runs < 2:
        return function(given)
    from concurrent.futures import ThreadPoolExecutor  # only here, as it brings logging

    found: list[Any] = [None] * len(given)
    with ThreadPoolExecutor(runs, "sweephand-read") as threads:
        parts = threads.map(function, [given[run::runs] for run in range(runs)])
        for run, part in enumerate(parts):
            found[run::runs] = part
    return found


class CallLock:
    """Call lock of one object of the user, with the names of its running calls.

    A thread that is in may come in again: the code may call itself in ways of its own.
    """

    def __init__(self, *, several: bool = False) -> None:
        self.is_exclusive = not several  # lets one thread in at a time
        self._lock = threading.RLock()
        self._calls: list[tuple[int, object]] = []  # thread, and the object that it called

    @contextmanager
    def hold(self, call: object) -> Iterator[None]:
        """Hold the lock during calls; ``str(call)`` names them."""
        entry = threading.get_ident(), call
        with self._lock if self.is_exclusive else nullcontext():
            self._calls.append(entry)
            try:
                yield
            finally:
                self._calls.remove(entry)

    @property
    def calls(self) -> list[str]:
        """Names of the running calls."""
        return [str(call) for _, call in self._calls]

    def check_not_mine(self) -> None:
        """Raise RuntimeError if this thread would wait for its own call."""
        for thread, call in self._calls:
            if thread == threading.get_ident() and self.is_exclusive:
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
