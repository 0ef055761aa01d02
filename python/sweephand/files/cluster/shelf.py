"""The entries of a node as the other nodes of its cluster find them."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from sweephand.files.cluster.members import UNKNOWN_CHUNK
from sweephand.files.cluster.message import EntryRequest, FoundEntry
from sweephand.files.node_cache.entries import Key, head_of
from sweephand.files.node_cache.fetch_lock import FetchLock
from sweephand.files.node_cache.folder import Busy, CacheFolder

_MOST_CLAIMS = 256  # each has a descriptor


class Shelf:
    """Entries of a folder for other nodes.

    A node that does not find an entry fetches it from the store, and gives it. Until then the
    lock on fetching it is held for that node, so that other requests for it wait, in this
    node and in other nodes.

    Parameters
    ----------
    claim_seconds : float
        How long the lock is held for another node, which may have ended.
    """

    def __init__(self, folder: CacheFolder, claim_seconds: float = 0.0) -> None:
        self._folder, self.claim_seconds = folder, claim_seconds
        self._claims: dict[Key, tuple[FetchLock, float]] = {}
        self._guard = threading.Lock()

    def find(self, asked: EntryRequest) -> FoundEntry:
        """Return an entry, or who is to fetch it."""
        content = self._read(asked)
        if content is not None or not asked.wait:  # a claim would be waited for in vain
            return FoundEntry(content)
        self.release_old()
        chunk = self._chunk_of(asked)
        try:
            lock = self._folder.fetch_lock(asked.key)
            if not self._folder.try_to_take(lock):
                lock.close()
                return FoundEntry(self._read(asked))
            # A process may be fetching it ahead, though it is not kept after that.
            keeps = self._folder.would_keep(asked.key, chunk, asked.size, asked.time)
            if lock.is_mine and not keeps:
                lock.close()
                return FoundEntry()
        except (Busy, OSError):
            return FoundEntry()
        with self._guard:
            if lock.is_mine and len(self._claims) < _MOST_CLAIMS:
                self._claims[asked.key] = lock, time.monotonic() + self.claim_seconds
                return FoundEntry(is_wanted=True)
        is_coming = not lock.is_mine
        lock.close()
        return FoundEntry(is_coming=is_coming)

    def put(self, given: EntryRequest, head: bytes, content: NDArray[np.uint8]) -> bool:
        """Keep an entry that another node gives; return False if it is damaged."""
        if head != head_of(given.key, content):
            return False
        with self._guard:
            lock, _ = self._claims.pop(given.key, (None, 0.0))
        with suppress(Busy, OSError):
            if lock is None:
                lock = self._folder.fetch_lock(given.key)
                self._folder.try_to_take(lock)
            if lock.is_mine:
                self._folder.store(self._chunk_of(given), content, lock, given.time)
        if lock is not None:
            lock.close()
        return True

    def chunks(self, corpus: int) -> bytes:
        """Return a bit for each chunk of which something is held."""
        uses = self._folder.uses
        held = np.zeros(len(uses.chunk_samples), bool)
        with suppress(Busy):
            chunks = [one for one in self._folder.held_chunks() if one != UNKNOWN_CHUNK]
            if corpus == uses.corpus:
                held[chunks] = True
        return np.packbits(held).tobytes()

    def release_old(self) -> None:
        """Release the entries that did not arrive in time to other fetchers."""
        self._release(time.monotonic())

    def close(self) -> None:
        """Wait for no more entries."""
        self._release(float("inf"))

    def _release(self, now: float) -> None:
        with self._guard:
            old = [key for key, (_, end) in self._claims.items() if end <= now]
            locks = [self._claims.pop(key)[0] for key in old]
        for lock in locks:
            lock.close()

    def _read(self, asked: EntryRequest) -> NDArray[np.uint8] | None:
        """Return an entry with its head."""
        with suppress(Busy, OSError):
            content = self._folder.read(asked.key, asked.size, 0)
            if content is not None:
                self._folder.note_use(asked.key, self._chunk_of(asked), asked.time)
            return content
        return None

    def _chunk_of(self, asked: EntryRequest) -> int:
        """Return the chunk in the corpus of this folder, and in its future."""
        uses = self._folder.uses
        is_ours = (asked.corpus, asked.timeline) == (uses.corpus, uses.timeline)
        return (
            asked.chunk if is_ours and asked.chunk < len(uses.chunk_samples) else UNKNOWN_CHUNK
        )
