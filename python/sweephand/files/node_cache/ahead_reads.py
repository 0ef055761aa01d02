"""Reads of objects by a chunk that is loaded only to be kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sweephand.files.node_cache.ahead_queue import DueChunk
from sweephand.files.node_cache.entries import HEAD_BYTES, key_of
from sweephand.files.node_cache.fetch_lock import FetchLock
from sweephand.files.node_cache.folder import CacheFolder
from sweephand.files.node_cache.loading import RequestedFile
from sweephand.files.node_cache.marker import MARK

Keep = Callable[[Callable[[], bool]], bool]
"""Keeps bytes, unless nothing is to be kept any more."""


class NotAhead(Exception):
    """A chunk is left to whoever needs it."""


class AheadReads:
    """Reads of one chunk while it is loaded ahead, by one thread or several.

    Attributes
    ----------
    is_left : bool
        There was nothing to fetch ahead, or no room: nothing has failed.
    """

    def __init__(
        self,
        folder: CacheFolder,
        chunk: DueChunk,
        keep: Keep,
        count: Callable[[str, int], None],
    ) -> None:
        self._folder, self._chunk, self._keep, self._count = folder, chunk, keep, count
        self._guard = threading.Lock()
        self._fetched: list[tuple[RequestedFile, NDArray[np.uint8], FetchLock]] = []
        self.is_left = False

    def fetch(
        self, file: RequestedFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        """Return bytes of an object from the store, or what is there already."""
        if not size:
            return file.request(offset, size, padding)
        if not file.tells_apart or size + HEAD_BYTES > self._folder.max_bytes:
            self._leave()
        key = key_of(file, offset, size)
        try:
            found = self._folder.entries.read(key, size, padding)
        except ValueError:
            self._folder.remove(key)
            found = None
        if found is not None:
            return found
        lock = FetchLock(self._folder.path / MARK, key)
        is_kept = False
        try:
            if not self._folder.try_to_take(lock) or not lock.is_mine:
                self._leave()
            found = file.request(offset, size, padding)
            self._count("misses", 1)
            self._count("bytes_fetched", size)
            self._count("bytes_fetched_ahead", size)
            with self._guard:
                self._fetched.append((file, found[:size], lock))
            is_kept = True
            return found
        finally:
            if not is_kept:
                lock.close()

    def check_unchanged(self, file: RequestedFile) -> None:
        """Check that an object is the listed one, and keep the bytes fetched from it."""
        with self._guard:
            mine = [one for one in self._fetched if one[0] == file]
            self._fetched = [one for one in self._fetched if one[0] != file]
        try:
            if mine:
                file.look()
            for _, content, lock in mine:
                if not self._keep(partial(self._store, content, lock)):
                    self._leave()
        finally:
            for _, _, lock in mine:
                lock.close()

    def end(self) -> None:
        """Release what was not checked."""
        with self._guard:
            left, self._fetched = self._fetched, []
        for _, _, lock in left:
            lock.close()

    def _store(self, content: NDArray[np.uint8], lock: FetchLock) -> bool:
        number, due, limit = self._chunk
        if not lock.is_waited_for:
            return self._folder.store_ahead(number, content, lock, due, limit)
        self._folder.store(number, content, lock)
        return True

    def _leave(self) -> None:
        self.is_left = True
        raise NotAhead
