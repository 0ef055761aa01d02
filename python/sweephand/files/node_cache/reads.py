"""Ranges of objects for one source: from the cache of the node, or fetched once for all."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand.files.cluster.cluster_node import ClusterNode, ClusterPlan, PeerAnswer
from sweephand.files.cluster.members import Member
from sweephand.files.cluster.roster import Roster
from sweephand.files.node_cache.chunk_reads import ChunkReads, Count, Fetched
from sweephand.files.node_cache.entries import HEAD_BYTES, Key, key_of
from sweephand.files.node_cache.fetch_ahead import FetchAhead, Loads
from sweephand.files.node_cache.fetch_lock import FetchLock, Patience
from sweephand.files.node_cache.folder import Busy, CacheFolder
from sweephand.files.node_cache.loading import RequestedFile, entered
from sweephand.files.node_cache.next_uses import Uses

Result = TypeVar("Result")

# The wait for chunks that another process fetches; see `Patience`.
_PATIENCE = 10.0
_FIRST_DELAY, _LAST_DELAY = 0.001, 0.05


@dataclass
class CacheStats:
    """Counts of hits and misses of a node's cache, and their bytes.

    Attributes
    ----------
    hits, misses : int
        Ranges that were there, and that were asked of the store.
    bytes_read, bytes_fetched, bytes_fetched_ahead : int
        From the disk, from the store, and of these before they were needed.
    peer_hits, bytes_from_peers : int
        Ranges that other nodes of the cluster had.
    bytes_to_peers, bytes_served : int
        Given to the nodes that are to hold them, and sent to those that asked.
    peer_failures : int
        Requests that other nodes did not answer in time, or not as they should.
    """

    hits: int = 0
    misses: int = 0
    bytes_read: int = 0
    bytes_fetched: int = 0
    bytes_fetched_ahead: int = 0
    peer_hits: int = 0
    bytes_from_peers: int = 0
    bytes_to_peers: int = 0
    bytes_served: int = 0
    peer_failures: int = 0


class NodeReads:
    """Reads of objects by the chunks of a source, through a node's cache.

    A process that was forked has a place of its own in the folder.

    Parameters
    ----------
    make_uses : callable
        Returns the future of the chunks.
    cluster : ClusterPlan, optional
        Where other nodes are asked before the store.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        make_uses: Callable[[], Uses],
        cluster: ClusterPlan | None = None,
    ) -> None:
        self._arguments = folder, max_bytes, make_uses, cluster
        self.loads = Loads()
        self.max_bytes = max_bytes
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._stats = CacheStats()
        self._is_closed = self._takes_no_more = False
        self.patience = Patience(_PATIENCE)
        folder, max_bytes, make_uses, cluster = self._arguments
        self._folder: CacheFolder | None = None
        self._cluster: ClusterNode | None = None
        self._ahead: FetchAhead | None = None
        uses = make_uses()
        roster = None if cluster is None else Roster(cluster.members, cluster.own, uses)
        owns = None if roster is None else roster.owns
        try:
            self._folder = CacheFolder(folder, max_bytes, uses, owns)
            if cluster is not None and roster is not None:
                self._cluster = ClusterNode(cluster, roster, self._folder, _counting(self))
                ahead = FetchAhead(
                    self._folder, make_uses, roster.to_fetch, self.loads, _counting(self)
                )
                weakref.finalize(self, ahead.stop)  # of a source that is not closed
                self._ahead = ahead
        except Busy:
            warnings.warn(
                f"the node cache {folder} is not used: whoever has locked it was stopped",
                RuntimeWarning,
                stacklevel=2,
            )

    def _own(self) -> CacheFolder | None:
        """Return the folder, or None after it was closed."""
        if os.getpid() != self._process:
            self._begin()
        return None if self._is_closed else self._folder

    def stand(self, time: int, num_partitions: int, partition_index: int) -> None:
        """Publish the nominal time of the source, and its share of the workers."""
        folder = self._own()
        if folder is not None:
            folder.stand(time, num_partitions, partition_index)
        if self._cluster is not None:
            self._cluster.stand(time)
        if self._ahead is not None:
            self._ahead.stand(time)

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
            if self._ahead is not None:
                self._ahead.stop()
            if self._cluster is not None:
                self._cluster.close()
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

    def ask_peers(self, key: Key, chunk: int, size: int, padding: int) -> PeerAnswer:
        """Ask the other nodes of the cluster for a range."""
        self._own()
        if self._cluster is None:
            return PeerAnswer()
        return self._cluster.ask(key, chunk, size, padding)

    def give(self, member: Member, key: Key, chunk: int, content: NDArray[np.uint8]) -> None:
        """Give a range to the node that is to hold it."""
        if self._cluster is not None:
            self._cluster.give(member, key, chunk, content)

    def requesting(self) -> AbstractContextManager[None]:
        """Have nothing fetched ahead meanwhile."""
        return nullcontext() if self._ahead is None else self._ahead.requesting()

    def open_lock(self, key: Key) -> FetchLock:
        """Return the lock of an entry, not yet taken; Busy where nothing is kept any more."""
        folder = self._own()
        if folder is None or self._takes_no_more:
            raise Busy
        return self._or_busy(lambda: folder.fetch_lock(key))

    def try_to_take(self, lock: FetchLock) -> bool:
        """Take a lock if it is free; return False where the entry is there already.

        Raises
        ------
        Busy
        """
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


class _CachedReads(ChunkReads):
    """Reads of one chunk that is needed."""

    def __init__(self, reads: NodeReads, chunk: int) -> None:
        super().__init__(chunk, reads.count)
        self._reads = reads

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
            answer = reads.ask_peers(key, self._chunk, size, padding)
            if answer.content is not None:
                self._keep(Fetched(file, answer.content[:size], lock, answer.wanted_by))
                return answer.content
            found = self._request(file, offset, size, padding)
            is_kept = lock.is_mine
            if is_kept:
                self._hold(Fetched(file, found[:size], lock, answer.wanted_by))
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

    def _keep(self, fetched: Fetched) -> None:
        """Keep bytes of the listed object, and give them to the node that is to hold them."""
        content, lock, wanted_by = fetched.content, fetched.lock, fetched.wanted_by
        if lock.is_mine:
            self._reads.store(self._chunk, content, lock)
            lock.close()
        if wanted_by is not None:
            self._reads.give(wanted_by, lock.key, self._chunk, content)

    def _request(
        self, file: RequestedFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        with self._reads.requesting():
            return super()._request(file, offset, size, padding)

    def _keep_all(self) -> None:
        with self._guard:
            files = [one.file for one in self._waiting]
        for file in files:
            self.check_unchanged(file)


def _counting(reads: NodeReads) -> Count:
    """Return the counting of reads, for threads that must not keep them alive."""
    find = weakref.WeakMethod(reads.count)

    def count(name: str, number: int) -> None:
        if (own := find()) is not None:
            own(name, number)

    return count
