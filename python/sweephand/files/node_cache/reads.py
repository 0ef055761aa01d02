"""Ranges of objects for one source: from the cache of the node, or fetched once for all."""

from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand.files.cluster.cluster_node import ClusterNode, ClusterPlan, PeerAnswer
from sweephand.files.cluster.members import Member
from sweephand.files.cluster.roster import Roster
from sweephand.files.node_cache.entries import HEAD_BYTES, Key, key_of
from sweephand.files.node_cache.fetch_ahead import FetchAhead, Loads
from sweephand.files.node_cache.fetch_lock import FetchLock, Patience
from sweephand.files.node_cache.folder import Busy, CacheFolder
from sweephand.files.node_cache.loading import RequestedFile, entered
from sweephand.files.node_cache.marker import MARK
from sweephand.files.node_cache.next_uses import Uses

Result = TypeVar("Result")

# How long one waits for what another process fetches; see `Patience`.
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
    damaged : int
        Entries whose checksum was wrong.
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
    damaged: int = 0
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
    folder : Path
    max_bytes : int
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
        loading = ChunkReads(self, chunk)
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
        return {**found, "cache_evictions": self._folder.evictions if self._folder else 0}

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
            content = folder.entries.read(key, size, padding)
        except ValueError:
            self.count("damaged")
            self._try(lambda: folder.remove(key))
            return None
        except OSError as error:
            self._give_up(error)
            return None
        if content is not None:
            self.count("hits")
            self.count("bytes_read", size)
            self._try(lambda: folder.note_use(key, chunk))
        return content

    def ask_peers(self, key: Key, chunk: int, size: int, padding: int) -> PeerAnswer | None:
        """Ask the other nodes of the cluster for a range; None where there is no cluster."""
        self._own()
        return None if self._cluster is None else self._cluster.ask(key, chunk, size, padding)

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
        return self._or_busy(lambda: FetchLock(folder.path / MARK, key))

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


@dataclass(eq=False)
class _Fetched:
    file: RequestedFile
    content: NDArray[np.uint8]
    lock: FetchLock
    wanted_by: Member | None = None  # another node


@dataclass
class ChunkReads:
    """Reads of one chunk while it is loaded, by one thread or several."""

    reads: NodeReads
    chunk: int
    _waiting: list[_Fetched] = field(default_factory=list)  # to be found unchanged, then kept
    _asked: set[str] = field(default_factory=set)  # objects, since they were looked at
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def fetch(
        self, file: RequestedFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        """Return bytes of an object: from the cache, or from the store and then for all."""
        if not size or not file.tells_apart or size + HEAD_BYTES > self.reads.max_bytes:
            return self._request(file, offset, size, padding)
        key = key_of(file, offset, size)
        found = self.reads.read(key, self.chunk, size, padding)
        if found is not None:
            return found
        try:
            lock = self.reads.open_lock(key)
        except Busy:
            return self._request(file, offset, size, padding)
        is_kept = False
        try:
            found = self._wait(lock, size, padding)
            if found is not None:
                return found
            answer = self.reads.ask_peers(key, self.chunk, size, padding)
            if answer is not None and answer.content is not None:
                self._pass_on(answer.content[:size], lock, answer.wanted_by)
                return answer.content
            found = self._request(file, offset, size, padding)
            wanted_by = None if answer is None else answer.wanted_by
            is_kept = lock.is_mine
            if is_kept:
                with self._guard:
                    self._waiting.append(_Fetched(file, found[:size], lock, wanted_by))
            return found
        finally:
            if not is_kept:
                lock.close()

    def _wait(self, lock: FetchLock, size: int, padding: int) -> NDArray[np.uint8] | None:
        """Wait until the lock is one's own, or the entry is there, but not for long."""
        end, delay = time.monotonic() + self.reads.patience.seconds, _FIRST_DELAY
        with suppress(Busy):
            while time.monotonic() < end:
                if not self.reads.try_to_take(lock):
                    found = self.reads.read(lock.key, self.chunk, size, padding)
                    if found is not None:
                        return found
                elif lock.is_mine:
                    return None
                self._keep_all()  # nobody waits while somebody waits for him
                time.sleep(delay)
                delay = min(2 * delay, _LAST_DELAY)
            self.reads.patience.lose()
        return None

    def check_unchanged(self, file: RequestedFile) -> None:
        """Check that an object is the listed one, and keep the bytes fetched from it.

        Nobody looks where all came from the cache: its entries are those of the listed object.
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
                self._pass_on(one.content, one.lock, one.wanted_by)
        finally:
            _let_go(mine)

    def _pass_on(
        self, content: NDArray[np.uint8], lock: FetchLock, wanted_by: Member | None
    ) -> None:
        """Keep bytes of the listed object, and give them to the node that is to hold them."""
        if lock.is_mine:
            self.reads.store(self.chunk, content, lock)
            lock.close()
        if wanted_by is not None:
            self.reads.give(wanted_by, lock.key, self.chunk, content)

    def end(self) -> None:
        """Release fetched bytes that were not checked."""
        with self._guard:
            left, self._waiting = self._waiting, []
        _let_go(left)

    def _request(
        self, file: RequestedFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        with self.reads.requesting():
            content = file.request(offset, size, padding)
        self.reads.count("misses")
        self.reads.count("bytes_fetched", size)
        with self._guard:
            self._asked.add(file.path)
        return content

    def _keep_all(self) -> None:
        with self._guard:
            files = [one.file for one in self._waiting]
        for file in files:
            self.check_unchanged(file)


def _counting(reads: NodeReads) -> Callable[[str, int], None]:
    """Return the counting of reads, for threads that must not keep them alive."""
    find = weakref.WeakMethod(reads.count)

    def count(name: str, number: int) -> None:
        if (own := find()) is not None:
            own(name, number)

    return count


def _let_go(fetched: Sequence[_Fetched]) -> None:
    for one in fetched:
        one.lock.close()
