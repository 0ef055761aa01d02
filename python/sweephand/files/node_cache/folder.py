"""The folder of a cache: its users, its entries, and which of them stay.

    sweephand-node-cache   says whose folder it is; bytes far after its end are locked
    ranks                  where every process stands: 32 bytes for each
    journal                what they have kept and removed
    entries/               a file for each range of an object

All of it changes under one lock, which is held for microseconds. What the journal says of an
entry comes before the entry itself, so that no kill leaves an unknown entry.
"""

from __future__ import annotations

import errno
import heapq
import os
import shutil
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand.files.node_cache.entries import HEAD_BYTES, Entries, Key
from sweephand.files.node_cache.fetch_lock import FetchLock
from sweephand.files.node_cache.marker import prepare
from sweephand.files.node_cache.next_uses import NextUses, Uses
from sweephand.files.node_cache.ranks import MOST_RANKS, Rank, Ranks
from sweephand.run.locks import ByteLocks, Descriptor, check_byte_locks
from sweephand.run.records import RecordKind, pack_block, whole_blocks

_TURN = 1 << 20  # the byte that is locked
_TURN_SECONDS = 1.0  # it is held for microseconds, unless who holds it was stopped
_SHUN_SECONDS = 30.0
_UNKNOWN = 2**64  # needed next: after all that is known
_MANY_RECORDS = 10_000


class Busy(Exception):
    """Another process holds the lock of the folder for too long."""


class CacheFolder:
    """View of the folder for one process. Safe for several threads.

    Attributes
    ----------
    evictions, damaged : int
        Entries that left for others, and whose checksum was wrong.

    Raises
    ------
    ValueError
        If the folder is not one of a cache, or the disk has no room for `max_bytes`.
    OSError
        If it cannot be written.
    Busy
        If its lock is held by a process, which may be stopped.
    """

    def __init__(self, path: Path, max_bytes: int, uses: Uses) -> None:
        check_byte_locks()
        self._next_uses = NextUses(uses)
        self.path, self.uses, self.max_bytes = path, uses, max_bytes
        self.evictions = self.damaged = 0
        self._kept = BeladySet[Key](max_bytes)
        self._chunks: dict[Key, set[int]] = {}  # of this corpus, that an entry is a part of
        self._threads, self._publishing = threading.Lock(), threading.Lock()
        self._shunned_until, self._is_closed = 0.0, False
        self._rank, self._has_moved = Rank(uses.timeline, 0, 1, 0), False
        self._mark = prepare(path)
        self._lock = ByteLocks(self._mark)
        self.entries = Entries(path / "entries")
        self._journal = Journal(path / "journal")
        self._ranks = Ranks(path / "ranks", self._lock)
        if self._ranks.number is None:
            raise ValueError(f"more than {MOST_RANKS} processes use the node cache {path}")
        self._number = self._ranks.number
        try:
            with self._turn() as num_records:
                self.publish(0, 1, 0)
                self._begin(num_records)
        except BaseException:
            self.close()
            raise

    def _begin(self, num_records: int) -> None:
        """Take over the entries, and remove files that a killed process left."""
        for writer, path in self.entries.unfinished():
            if not self._ranks.lives(writer):
                os.unlink(path)  # noqa: PTH108
        is_alone = not any(self._ranks.lives(number) for number in range(MOST_RANKS))
        there = self.entries.keys()
        for key in there - set(self._kept):
            self.entries.remove(key)
        if is_alone:
            for key in set(self._kept) - there:
                self._forget(key)
            if num_records > _MANY_RECORDS + 2 * len(self._kept):
                self._journal.rewrite([self._record(key) for key in self._kept])
        free = shutil.disk_usage(self.path).free
        if self._kept.room > free + self._kept.used:
            raise ValueError(
                f"max_bytes of the node cache is {self._kept.room}, but the disk of "
                f"{self.path} has only {free + self._kept.used} bytes for it; give less"
            )
        self._remove(self._kept.take_farthest())

    @contextmanager
    def _turn(self) -> Iterator[int]:
        """Hold the folder's lock, and apply the records of the other processes.

        Yields their number.
        """
        begin = time.monotonic()
        end = begin + _TURN_SECONDS
        if begin < self._shunned_until or not self._threads.acquire(timeout=_TURN_SECONDS):
            raise Busy
        try:
            if self._is_closed:
                raise Busy
            delay = 1e-4
            while not self._lock.lock(_TURN):
                if time.monotonic() > end:
                    self._shunned_until = end + _SHUN_SECONDS
                    raise Busy
                time.sleep(delay)
                delay = min(2 * delay, 5e-3)
            try:
                yield self._apply_journal()
            finally:
                self._lock.unlock(_TURN)
        finally:
            self._threads.release()

    def publish(self, time: int, num_partitions: int, partition_index: int) -> None:
        """Publish the position of this process."""
        before = self._rank
        self._rank = Rank(self.uses.timeline, time, num_partitions, partition_index)
        if not before.time <= time <= before.time + self.uses.sweep // 2:
            self._has_moved = True  # so that other chunks come next
        with self._publishing:
            if not self._is_closed:
                self._ranks.publish(self._rank)

    def read(self, key: Key, size: int, padding: int) -> NDArray[np.uint8] | None:
        """Return the content of an entry and zeros; None if it is absent, or damaged."""
        try:
            return self.entries.read(key, size, padding)
        except ValueError:
            self.damaged += 1
            self.remove(key)
            return None

    def fetch_lock(self, key: Key) -> FetchLock:
        """Return the lock on fetching an entry, not yet taken."""
        return FetchLock(self._mark, key)

    def try_to_take(self, lock: FetchLock) -> bool:
        """Take a lock if it is free; return False where the entry is there already."""
        with self._turn():
            if self.entries.holds(lock.key):
                return False
            lock.take()
            return True

    def note_use(self, key: Key, chunk: int) -> None:
        """Record the next use of an entry that was just used."""
        with self._turn():
            if key in self._kept:
                size = self._kept.size_of(key)
                self._kept.set(key, size, self._time_of_next(key, chunk))
                self._journal.append([self._record(key, chunk)])

    def store(self, chunk: int, content: NDArray[np.uint8], lock: FetchLock) -> None:
        """Keep fetched bytes if they are needed sooner than kept entries, or waited for."""
        key, size = lock.key, content.size + HEAD_BYTES
        with self._turn():
            self._look_again()
            now = self._rank.time
            wanted = now if lock.is_waited_for else self._time_of_next(key, chunk)
            leaving = self._kept.put(key, size, wanted)
            if key in leaving:
                leaving.remove(key)
                self._chunks.pop(key, None)
                lock.close()  # within the turn: who comes later fetches it
            else:
                self._chunks.setdefault(key, set()).add(chunk)
            self._remove(leaving)
            if key not in self._kept:
                return
            self._journal.append([self._record(key, chunk)])
        self._write(key, content)

    def _write(self, key: Key, content: NDArray[np.uint8]) -> None:
        """Write an entry of which there is a record already."""
        try:
            unfinished = self.entries.write(key, content, self._number)
        except OSError:
            self.remove(key)
            raise
        try:
            with self._turn():
                if key in self._kept:  # it may have had to leave meanwhile
                    unfinished.finish()
        finally:
            unfinished.remove()

    def remove(self, key: Key) -> None:
        """Remove an entry, as it is damaged or could not be written."""
        with self._turn():
            self._remove([key], is_eviction=False)

    def close(self) -> None:
        """Leave the folder."""
        with self._threads, self._publishing:
            if not self._is_closed:
                self._is_closed = True
                self._ranks.leave()
                self._ranks.close()
                self._journal.close()
                self._lock.close()

    def _apply_journal(self) -> int:
        """Apply the records of the other processes, and return their number."""
        records = list(self._journal.news())
        for record in records:
            key = record.key
            if not record.is_kept:
                self._forget(key)
                continue
            wanted = self._kept.time_of(key)
            if record.corpus == self.uses.corpus:
                self._chunks.setdefault(key, set()).add(record.chunk)
                if record.timeline == self.uses.timeline:
                    wanted = record.time
                elif wanted is None:
                    wanted = 0  # it is looked at when something has to leave
            self._kept.set(key, record.num_bytes, _UNKNOWN if wanted is None else wanted)
        return len(records)

    def _look_again(self) -> None:
        """Look up the next time of entries that were not used when they should have been."""
        rank = self._rank
        keys = self._kept.take_overdue(rank.time)
        if self._has_moved:
            keys = list(self._chunks)
            self._has_moved = False
        parts = {key: self._chunks[key] for key in keys if self._chunks.get(key)}
        if not parts:
            return
        peers = self._ranks.peers(self.uses.timeline)
        for key, wanted in self._next_uses.look(parts, rank, peers).items():
            self._kept.set(key, self._kept.size_of(key), wanted)

    def _time_of_next(self, key: Key, chunk: int) -> int:
        """Return when an entry is needed after the use for which it is loaded."""
        peers = self._ranks.peers(self.uses.timeline)
        return self._next_uses.after_this(chunk, self._chunks.get(key, ()), self._rank, peers)

    def _record(self, key: Key, chunk: int | None = None) -> JournalRecord:
        size, wanted = self._kept.size_of(key), self._kept.time_of(key) or 0
        chunks = self._chunks.get(key)
        if chunk is None and not chunks:
            return JournalRecord(True, key, num_bytes=size)
        of_chunk = min(chunks or ()) if chunk is None else chunk
        mine = self.uses.corpus, self.uses.timeline
        return JournalRecord(True, key, *mine, of_chunk, size, min(wanted, 2**64 - 1))

    def _remove(self, keys: Sequence[Key], *, is_eviction: bool = True) -> None:
        for key in keys:
            self.entries.remove(key)
            self._forget(key)
        if keys:
            self._journal.append([JournalRecord(False, key) for key in keys])
        if is_eviction:
            self.evictions += len(keys)

    def _forget(self, key: Key) -> None:
        self._kept.discard(key)
        self._chunks.pop(key, None)


Item = TypeVar("Item")


class BeladySet(Generic[Item]):
    """Choose the items that stay in bounded room, by the time of their next use (Belady).

    Parameters
    ----------
    room : int
        What the sizes of all that are kept may add up to.

    Examples
    --------
    >>> kept = BeladySet[str](room=2)
    >>> kept.put("a", 1, time=5), kept.put("b", 1, time=9)
    ([], [])
    >>> kept.put("c", 1, time=7), kept.put("d", 1, time=8)
    (['b'], ['d'])
    >>> sorted(kept)
    ['a', 'c']
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.used = 0
        self._items: dict[Item, tuple[int, int]] = {}  # size, time
        # (time, number, item) of all items, and of some that are gone or have another time now.
        self._latest: list[tuple[int, int, Item]] = []
        self._soonest: list[tuple[int, int, Item]] = []
        self._number = 0

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item, size: int, time: int) -> list[Item]:
        """Keep an item, or update its next use if it is kept; return those that leave.

        The item itself is one of them where everything else is needed sooner.
        """
        self.set(item, size, time)
        return self.take_farthest()

    def set(self, item: Item, size: int, time: int) -> None:
        """Note an item, though there may be no room for it."""
        self.discard(item)
        self._items[item] = size, time
        self.used += size
        self._number += 1  # of those that are needed at one time the latest leaves
        heapq.heappush(self._latest, (-time, -self._number, item))
        heapq.heappush(self._soonest, (time, self._number, item))
        self._forget_the_gone()

    def take_farthest(self) -> list[Item]:
        """Return those that leave until the rest fits, the last needed first."""
        leaving = []
        while self.used > self.room:
            farthest, _, last = heapq.heappop(self._latest)
            if self.time_of(last) == -farthest:
                self.discard(last)
                leaving.append(last)
        return leaving

    def discard(self, item: Item) -> None:
        """Forget an item, if it is there."""
        if item in self._items:
            self.used -= self._items.pop(item)[0]

    def time_of(self, item: Item) -> int | None:
        """Return when an item is needed next, None if it is not here."""
        return self._items[item][1] if item in self._items else None

    def size_of(self, item: Item) -> int:
        """Return the size of an item that is here."""
        return self._items[item][0]

    def take_overdue(self, now: int) -> list[Item]:
        """Return the items whose time has passed, each once; they stay until they are put."""
        found = []
        while self._soonest and self._soonest[0][0] <= now:
            time, _, item = heapq.heappop(self._soonest)
            if self.time_of(item) == time:
                found.append(item)
        return found

    def _forget_the_gone(self) -> None:
        most = 4 * len(self._items) + 64
        if max(len(self._latest), len(self._soonest)) <= most:
            return
        both = [(time, i, one) for i, (one, (_, time)) in enumerate(self._items.items())]
        self._number = len(both)
        self._soonest = both
        self._latest = [(-time, -i, one) for time, i, one in both]
        heapq.heapify(self._soonest)
        heapq.heapify(self._latest)


# Journal of a node's cache: the entries that its processes keep and remove.
#
# A file of records (`run/records.py`), appended under the lock of the folder. A block was
# appended at once; its payload has 64 bytes of each record, little-endian:
#
#     kept 1 | zeros 7 | key 16 | corpus 8 | timeline 8 | chunk 8 | bytes 8 | needed next 8

JOURNAL = RecordKind(b"SWEEPJRN", 1, "journal of a node cache", "delete the folder")
_RECORD = struct.Struct("<B7x16sQQQQQ")


class JournalRecord(NamedTuple):
    """JournalRecord of an entry."""

    is_kept: bool  # false: it is gone, and the rest says nothing but its key
    key: Key
    # digests: in which chunks mean the same, and in which times do
    corpus: int = 0
    timeline: int = 0
    chunk: int = 0  # the chunk that was being loaded
    num_bytes: int = 0  # of the file
    time: int = 0  # when it is needed next, in nominal time


class Journal(Descriptor):
    """Records that were appended by any process, read as far as they go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_CREAT | os.O_APPEND)
        self._read = 0  # by `news`
        self._end = 0  # of the last whole block that was seen

    def append(self, records: Iterable[JournalRecord]) -> None:
        """Add records: the other processes see all of them or none."""
        self._read_blocks(self._end)
        begin = self._end
        block = pack_block(b"", b"".join(_RECORD.pack(*record) for record in records))
        data = block if begin else JOURNAL.head + block
        os.ftruncate(self._fd, begin)  # the torn end: the disk was full
        if os.pwrite(self._fd, data, begin) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def news(self) -> Iterator[JournalRecord]:
        """Iterate over the records that were not read yet, own ones too."""
        for payload in self._read_blocks(self._read):
            for kept, *rest in _RECORD.iter_unpack(payload):
                yield JournalRecord(bool(kept), *rest)
        self._read = self._end

    def rewrite(self, records: Iterable[JournalRecord]) -> None:
        """Replace the journal by these records; the caller must be its only user."""
        os.ftruncate(self._fd, 0)
        self._read = self._end = 0
        self.append(records)

    def _read_blocks(self, begin: int) -> list[memoryview]:
        """Return the payloads of the whole blocks from a place on, and note where they end.

        Where something else is, the file is read anew: others have dropped what was damaged.
        """
        size = os.fstat(self._fd).st_size
        content = memoryview(os.pread(self._fd, max(size - begin, 0), begin))
        if not begin and not JOURNAL.begins(content):
            self._end = 0
            return []
        blocks = list(whole_blocks(content, 0 if begin else len(JOURNAL.head)))
        self._end = begin + (blocks[-1].end if blocks else 0 if begin else len(JOURNAL.head))
        if self._end != size and begin:
            return self._read_blocks(0)
        return [block.payload(content) for block in blocks]
