"""Reads of objects by a chunk that is loaded only to be kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from sweephand.files.node_cache.ahead_queue import DueChunk
from sweephand.files.node_cache.chunk_reads import ChunkReads, Count, Fetched
from sweephand.files.node_cache.entries import HEAD_BYTES, key_of
from sweephand.files.node_cache.folder import CacheFolder
from sweephand.files.node_cache.loading import RequestedFile

Keep = Callable[[Callable[[], bool]], bool]
"""Keeps bytes, unless nothing is to be kept any more."""


class NotAhead(Exception):
    """A chunk is left to its readers."""


class AheadReads(ChunkReads):
    """Reads of one chunk that is loaded ahead.

    Attributes
    ----------
    is_left : bool
        There was nothing to fetch ahead, or no room: nothing has failed.
    """

    def __init__(self, folder: CacheFolder, due: DueChunk, keep: Keep, count: Count) -> None:
        super().__init__(due.number, count)
        self._folder, self._due, self._keep_by = folder, due, keep
        self.is_left = False

    def fetch(
        self, file: RequestedFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        """Return bytes of an object from the store, or from the folder."""
        if not size:
            return file.request(offset, size, padding)
        if not file.tells_apart or size + HEAD_BYTES > self._folder.max_bytes:
            self._leave()
        key = key_of(file, offset, size)
        found = self._folder.read(key, size, padding)
        if found is not None:
            return found
        lock = self._folder.fetch_lock(key)
        try:
            if not self._folder.try_to_take(lock) or not lock.is_mine:
                self._leave()
            found = self._request(file, offset, size, padding)
        except BaseException:
            lock.close()
            raise
        self._count("bytes_fetched_ahead", size)
        self._hold(Fetched(file, found[:size], lock))
        return found

    def _keep(self, fetched: Fetched) -> None:
        if not self._keep_by(partial(self._store, fetched)):
            self._leave()

    def _store(self, fetched: Fetched) -> bool:
        number, due, limit = self._due
        content, lock = fetched.content, fetched.lock
        if not lock.is_waited_for:
            return self._folder.store_ahead(number, content, lock, due, limit)
        self._folder.store(number, content, lock)
        return True

    def _leave(self) -> NoReturn:
        self.is_left = True
        raise NotAhead
