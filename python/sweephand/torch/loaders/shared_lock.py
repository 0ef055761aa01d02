"""A lock that processes share."""

from __future__ import annotations

import fcntl
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any


class SharedLock:
    """Shared with processes that are forked or spawned; one that is killed lets go of it.

    It is none between the threads of a process.
    """

    def __init__(self) -> None:
        descriptor, path = tempfile.mkstemp()
        Path(path).unlink()
        self._keep(descriptor)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until no other process has it, and have it for a while."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _keep(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        if get_spawning_popen() is None:
            return SharedLock, ()  # a copy that shares nothing
        return _carried, (DupFd(self._descriptor),)


def _carried(descriptor: Any) -> SharedLock:
    lock = SharedLock.__new__(SharedLock)
    lock._keep(descriptor.detach())
    return lock
