"""Locks on fetching an entry: held by one process at a time, released when it is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from sweephand.files.node_cache.entries import Key
from sweephand.run.locks import ByteLocks

_FIRST = 1 << 22  # after the bytes that are locked for other things; two for each key


# After a wait in vain: the wait for other processes, and the time until which it holds.
_LITTLE_PATIENCE, _HURRY = 0.1, 60.0


class Patience:
    """The time to wait for other processes, which may have been stopped."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._lost_until = 0.0

    def attempts(self, first_delay: float, last_delay: float) -> Iterator[None]:
        """Yield again and again, after growing delays, until there is no patience left.

        Then there is little for a while, as another process has not answered.
        """
        begin, delay = time.monotonic(), first_delay
        is_lost = begin < self._lost_until
        end = begin + (min(_LITTLE_PATIENCE, self._most) if is_lost else self._most)
        while time.monotonic() < end:
            yield
            time.sleep(delay)
            delay = min(2 * delay, last_delay)
        self._lost_until = time.monotonic() + _HURRY


class FetchLock:
    """The right to fetch an entry, or the wait for its holder; it ends with the process.

    Attributes
    ----------
    is_mine : bool
        True if it is the right.
    """

    def __init__(self, mark: Path, key: Key) -> None:
        self.key = key
        self._lock = ByteLocks(mark)
        self._byte = _FIRST + 2 * int.from_bytes(key[:7], "little")
        self.is_mine = False
        self._is_open = True

    def take(self) -> None:
        """Take it, or signal to its holder that we wait. Only under the folder's lock."""
        self.is_mine = self._lock.lock(self._byte)
        if not self.is_mine:
            self._lock.lock(self._byte + 1, shared=True)

    @property
    def is_waited_for(self) -> bool:
        """True if another process waits for the entry."""
        return self._lock.is_locked(self._byte + 1)

    def close(self) -> None:
        """Give it back."""
        if self._is_open:
            self._is_open = False
            # Not by closing alone, as a child may have been forked meanwhile.
            self._lock.unlock(self._byte)
            self._lock.unlock(self._byte + 1)
            self._lock.close()
