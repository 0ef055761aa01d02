"""Ranges of objects for one source: from the cache of the node, or fetched once for all."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand.files.loading import RequestedFile, entered
from sweephand.files.node_cache.entries import HEAD_BYTES, Key, key_of
from sweephand.files.node_cache.fetch_lock import FetchLock, Patience
from sweephand.files.node_cache.folder import Busy, CacheFolder
from sweephand.files.node_cache.next_uses import Uses

Result = TypeVar("Result")

# The wait for chunks that another process fetches; see `Patience`.
_PATIENCE = 10.0
_FIRST_DELAY, _LAST_DELAY = 0.001, 0.05


@dataclass
class CacheStats:
    """Counts of hits and misses of a node's cache, and their bytes."""

    # ranges that were there, and that were asked of the store
    hits: int = 0
    misses: int = 0
    # from the disk, and from the store
    bytes_read: int = 0
    bytes_fetched: int = 0


class NodeReads:
    """Reads of objects by the chunks of a source, through a node's cache.

    A process that was forked has a place of its own in the folder.
    """

    def __init__(self, folder: Path, max_bytes: int, make_uses: Callable[[], Uses]) -> None:
        self._arguments = folder, max_bytes, make_uses
        self.max_bytes = max_bytes
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._stats = CacheStats()
        self._is_closed = self._takes_no_more = False
        self.patience = Patience(_PATIENCE)
        folder, max_bytes, make_uses = self._arguments
        self._folder: CacheFolder | None = None
        try:
            self._folder = CacheFolder(folder, max_bytes, make_uses())
        except Busy:
            warnings.warn(
                f"the node cache {folder} is not used: its locker was stopped",
                RuntimeWarning,
                stacklevel=2,
            )

    def _own(self) -> CacheFolder | None:
        """Return the folder, or None after it was closed."""
        if os.getpid() != self._process:
            self._begin()
        return None if self._is_closed else self._folder

    def publish(self, time: int, num_partitions: int, partition_index: int) -> None:
        """Publish the nominal time of the source, and its share of the workers."""
        folder = self._own()
        if folder is not None:
            folder.publish(time, num_partitions, partition_index)

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
        self._own()
        with self._guard:
            found = {f"cache_{name}": value for name, value in vars(self._stats).items()}
        folder = self._folder
        found["cache_damaged"] = folder.damaged if folder else 0
        return {**found, "cache_evictions": folder.evictions if folder else 0}

    def close(self) -> None:
        """Leave the folder; later reads come from the store."""
        if os.getpid() == self._process and not self._is_closed:
            self._is_closed = True
            if self._folder is not None:
                self._folder.close()

    def count(self, name: str, number: int = 1) -> None:
        """Count something."""
        with self._guard:
            setattr(self._stats, name, getattr(self._stats, name) + number)

    def read(self, key: Key, chunk: int, size: int, padding: int) -> NDArray[np.uint8] | None:
        """Return a range from the cache; None if it is absent or damaged."""
        folder = self._own()
        if folder is None:
            return None
        try:
            content = self._or_busy(lambda: folder.read(key, size, padding))
        except Busy:
            return None
        if content is not None:
            self.count("hits")
            self.count("bytes_read", size)
            self._try(lambda: folder.note_use(key, chunk))
        return content

    def open_lock(self, key: Key) -> FetchLock:
        """Return the lock of an entry, not yet taken; Busy where nothing is kept any more."""
        folder = self._own()
        if folder is None or self._takes_no_more:
            raise Busy
        return self._or_busy(lambda: folder.fetch_lock(key))

    def try_to_take(self, lock: FetchLock) -> bool:
        """Take a lock if it is free; return False where the entry is there already."""
        folder = self._own()
        if folder is None:
            raise Busy
        return self._or_busy(lambda: folder.try_to_take(lock))

    def store(self, chunk: int, content: NDArray[np.uint8], lock: FetchLock) -> None:
        """Keep fetched bytes, if they should be."""
        folder = self._own()
        if folder is not None and not self._takes_no_more:
            self._try(lambda: folder.store(chunk, content, lock))

    def _try(self, action: Callable[[], None]) -> None:
        with suppress(Busy):
            self._or_busy(action)

    def _or_busy(self, action: Callable[[], Result]) -> Result:
        try:
            return action()
        except OSError as error:
            self._give_up(error)
            raise Busy from None

    def _give_up(self, error: OSError) -> None:
        """Go on without keeping more, and warn once."""
        if self._is_closed or self._takes_no_more:
            return
        self._takes_no_more = True
        warnings.warn(
            f"the node cache {self._arguments[0]} takes no more: {error.strerror or error}; "
            "what it lacks comes from the store every time",
            RuntimeWarning,
            stacklevel=2,
        )


@dataclass(eq=False)
class _Fetched:
    """Bytes of an object, with the lock on fetching them."""

    file: RequestedFile
    content: NDArray[np.uint8]
    lock: FetchLock


class _CachedReads:
    """Reads of one chunk, by one thread or several.

    Ranges from the store are kept after their object is found unchanged.
    """

    def __init__(self, reads: NodeReads, chunk: int) -> None:
        self._reads, self._chunk = reads, chunk
        self._guard = threading.Lock()
        self._waiting: list[_Fetched] = []  # to be found unchanged, then kept
        self._asked: set[str] = set()  # objects, since they were looked at

    def fetch(
        self, file: RequestedFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        """Return bytes of an object: from the cache, or from the store and then for all."""
        reads = self._reads
        if not size or not file.tells_apart or size + HEAD_BYTES > reads.max_bytes:
            return self._request(file, offset, size, padding)
        key = key_of(file, offset, size)
        found = reads.read(key, self._chunk, size, padding)
        if found is not None:
            return found
        try:
            lock = reads.open_lock(key)
        except Busy:
            return self._request(file, offset, size, padding)
        is_kept = False
        try:
            found = self._wait(lock, size, padding)
            if found is not None:
                return found
            found = self._request(file, offset, size, padding)
            is_kept = lock.is_mine
            if is_kept:
                self._hold(_Fetched(file, found[:size], lock))
            return found
        finally:
            if not is_kept:
                lock.close()

    def _wait(self, lock: FetchLock, size: int, padding: int) -> NDArray[np.uint8] | None:
        """Wait until the lock is one's own, or the entry is there, but not for long."""
        with suppress(Busy):
            for _ in self._reads.patience.attempts(_FIRST_DELAY, _LAST_DELAY):
                if not self._reads.try_to_take(lock):
                    found = self._reads.read(lock.key, self._chunk, size, padding)
                    if found is not None:
                        return found
                elif lock.is_mine:
                    return None
                self._keep_all()  # no process waits while others wait for it
        return None

    def _keep_all(self) -> None:
        with self._guard:
            files = [one.file for one in self._waiting]
        for file in files:
            self.check_unchanged(file)

    def check_unchanged(self, file: RequestedFile) -> None:
        """Check that an object is the listed object, and keep the bytes fetched from it.

        No check is made if all came from the cache: its entries are of the listed object.
        """
        with self._guard:
            if file.path not in self._asked:
                return
            self._asked.discard(file.path)
            mine = [one for one in self._waiting if one.file == file]
            self._waiting = [one for one in self._waiting if one not in mine]
        try:
            file.look()
            for one in mine:
                if one.lock.is_mine:
                    self._reads.store(self._chunk, one.content, one.lock)
                    one.lock.close()
        finally:
            for one in mine:
                one.lock.close()

    def end(self) -> None:
        """Release fetched bytes that were not checked."""
        with self._guard:
            left, self._waiting = self._waiting, []
        for one in left:
            one.lock.close()

    def _request(
        self, file: RequestedFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        content = file.request(offset, size, padding)
        self._reads.count("misses")
        self._reads.count("bytes_fetched", size)
        with self._guard:
            self._asked.add(file.path)
        return content

    def _hold(self, fetched: _Fetched) -> None:
        """Hold bytes and their lock until their object is found unchanged."""
        with self._guard:
            self._waiting.append(fetched)
