"""Ranges of objects for one source: from the cache of the node, or fetched once for all."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand.files.node_cache import (
    HEAD_BYTES,
    Busy,
    CacheFolder,
    FetchLock,
    Key,
    Uses,
    key_of,
)
from sweephand.files.remote import RemoteFile, entered

Result = TypeVar("Result")

# The wait for ranges that another process fetches, in seconds; after a wait in vain, as that
# process may be stopped, there is none for a while.
_PATIENCE, _HURRY = 10.0, 60.0
_FIRST_DELAY, _LAST_DELAY = 0.001, 0.05


class NodeReads:
    """Reads of a source through a node's cache, in which a forked process has its own place."""

    def __init__(self, folder: Path, max_bytes: int, make_uses: Callable[[], Uses]) -> None:
        self._arguments = folder, max_bytes, make_uses
        self.max_bytes = max_bytes
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._counts = Counter[str]()
        self._takes_more, self._hurried_until = True, 0.0
        folder, max_bytes, make_uses = self._arguments
        self._folder: CacheFolder | None = None
        try:
            self._folder = CacheFolder(folder, max_bytes, make_uses())
        except Busy:
            self._warn("is not used: its locker was stopped")

    def _own(self) -> CacheFolder | None:
        """Return the folder of this process; None where it is not used."""
        if os.getpid() != self._process:
            self._begin()
        return self._folder

    def publish(self, time: int, num_workers: int, worker: int) -> None:
        """Publish the nominal time of the source, and its share of the workers."""
        folder = self._own()
        if folder is not None:
            folder.publish(time, num_workers, worker)

    def load(self, load: Callable[[], Result], chunk: int) -> Result:
        """Load a chunk; its reads of objects may come from the cache."""
        loading = _CachedReads(self, chunk)
        try:
            with entered(loading):
                return load()
        finally:
            loading.end()

    def stats(self) -> dict[str, float]:
        """Return counts since this process began to read."""
        folder = self._own()
        with self._guard:
            counts = ("hits", "misses", "bytes_read", "bytes_fetched")
            found: dict[str, float] = {f"cache_{name}": self._counts[name] for name in counts}
        found["cache_damaged"] = folder.damaged if folder else 0
        return {**found, "cache_evictions": folder.evictions if folder else 0}

    def close(self) -> None:
        """Leave the folder; later reads come from the store."""
        if os.getpid() == self._process and self._folder is not None:
            self._folder.close()

    def count(self, ranges: str, bytes_: str, size: int) -> None:
        """Count a range and its bytes."""
        with self._guard:
            self._counts.update({ranges: 1, bytes_: size})

    def read(self, key: Key, chunk: int, size: int, padding: int) -> NDArray[np.uint8] | None:
        """Return a range from the cache; None if it is absent or damaged."""
        content = self.do(lambda folder: folder.read(key, size, padding))
        if content is not None:
            self.count("hits", "bytes_read", size)
            self.do(lambda folder: folder.note_use(key, chunk))
        return content

    def store(self, chunk: int, content: NDArray[np.uint8], key: Key) -> None:
        """Keep fetched bytes, if they should be."""
        self.do(lambda folder: folder.store(chunk, content, key), keeps=True)

    def attempts(self) -> Iterator[None]:
        """Yield again and again, after growing delays, until there is no patience left."""
        begin, delay = time.monotonic(), _FIRST_DELAY
        yield
        if begin < self._hurried_until:
            return
        while time.monotonic() < begin + _PATIENCE:
            time.sleep(delay)
            delay = min(2 * delay, _LAST_DELAY)
            yield
        self._hurried_until = time.monotonic() + _HURRY

    def do(
        self, action: Callable[[CacheFolder], Result], *, keeps: bool = False
    ) -> Result | None:
        """Do something with the folder; None where it cannot be done.

        When the disk fails the source goes on without keeping more, and warns once.
        """
        folder = self._own()
        if folder is None or (keeps and not self._takes_more):
            return None
        try:
            return action(folder)
        except Busy:
            return None
        except OSError as error:
            if self._takes_more:
                self._takes_more = False
                reason = error.strerror or error
                self._warn(
                    f"takes no more: {reason}; what it lacks comes from the store every time"
                )
            return None

    def _warn(self, reason: str) -> None:
        message = f"the node cache {self._arguments[0]} {reason}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)


class _CachedReads:
    """Reads of one chunk, by one thread or several.

    Ranges from the store are kept after their object is found unchanged.
    """

    def __init__(self, reads: NodeReads, chunk: int) -> None:
        self._reads, self._chunk = reads, chunk
        self._guard = threading.Lock()
        # What was fetched, to be kept once its object is found unchanged.
        self._waiting: list[tuple[RemoteFile, NDArray[np.uint8], FetchLock]] = []
        self._asked: set[str] = set()  # objects, since they were looked at

    def fetch(
        self, file: RemoteFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        """Return bytes of an object: from the cache, or from the store and then for all."""
        if not size or not file.tells_apart or size + HEAD_BYTES > self._reads.max_bytes:
            return self._request(file, offset, size, padding)
        key = key_of(file.path, file.size, file.tag, offset, size)
        found = self._reads.read(key, self._chunk, size, padding)
        if found is not None:
            return found
        lock = self._reads.do(lambda folder: FetchLock(folder.mark, key), keeps=True)
        if lock is None:
            return self._request(file, offset, size, padding)
        is_held = False
        try:
            found, is_mine = self._wait(lock, size, padding)
            if found is None:
                found = self._request(file, offset, size, padding)
                if is_mine:
                    with self._guard:
                        self._waiting.append((file, found[:size], lock))
                    is_held = True
            return found
        finally:
            if not is_held:
                lock.close()

    def _wait(
        self, lock: FetchLock, size: int, padding: int
    ) -> tuple[NDArray[np.uint8] | None, bool]:
        """Wait until the entry is there or the lock is one's own, but not for long."""
        for _ in self._reads.attempts():
            is_mine = lock.take()
            found = self._reads.read(lock.key, self._chunk, size, padding)
            if found is not None or is_mine:
                return found, is_mine
            with self._guard:
                files = [file for file, _, _ in self._waiting]
            for file in files:  # no process waits while others wait for it
                self.check_unchanged(file)
        return None, False

    def check_unchanged(self, file: RemoteFile) -> None:
        """Check that an object is the listed object, and keep the bytes fetched from it.

        No check is made if all came from the cache: its entries are of the listed object.
        """
        with self._guard:
            if file.path not in self._asked:
                return
            self._asked.discard(file.path)
            mine = [one for one in self._waiting if one[0] == file]
            self._waiting = [one for one in self._waiting if one[0] != file]
        try:
            file.look()
            for _, content, lock in mine:
                self._reads.store(self._chunk, content, lock.key)
                lock.close()  # others wait for it
        finally:
            for _, _, lock in mine:
                lock.close()

    def end(self) -> None:
        """Release fetched bytes that were not checked."""
        for _, _, lock in self._waiting:
            lock.close()

    def _request(
        self, file: RemoteFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        content = file.request(offset, size, padding)
        self._reads.count("misses", "bytes_fetched", size)
        with self._guard:
            self._asked.add(file.path)
        return content
