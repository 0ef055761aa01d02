"""The folder of a cache on a disk of a node: its users, its entries, and which of them stay.

    sweephand-node-cache   words that say whose folder it is, then two tables: where every
                           process stands, and what is kept; bytes after its end are locked
    entries/               a file of records (`run/records.py`) for each range of an object,
                           with one block: its label is the key, its payload the content

The table of what is kept changes under one lock, which is held for microseconds; a row is
written by one call, so a kill tears none. A row comes before its entry, so that no kill leaves
an unknown entry. An entry is written under another name and renamed, so that it is whole.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand.run.locks import ByteLocks, Descriptor, check_byte_locks
from sweephand.run.records import RecordKind, block_head, read_block

MARK = "sweephand-node-cache"
_WORDS = b"sweephand node cache 3: this folder and all in it may be deleted\n"

Key = bytes
"""The digest of an object and a range of it, in 32 hexadecimal digits."""

ENTRY = RecordKind(b"SWEEPENT", 2, "entry of a node cache", "delete the folder")
HEAD_BYTES = len(ENTRY.head) + len(block_head(bytes(32), b""))

MOST_RANKS = 1024
_RANK = np.dtype([("timeline", "<u8"), ("time", "<i8"), ("workers", "<u4"), ("worker", "<u4")])
_ROW = np.dtype(
    [
        ("key", "S32"),  # none: the row is free
        ("bytes", "<u8"),  # of the file
        # digests: in which chunks mean the same, and in which times do
        ("corpus", "<u8"),
        ("timeline", "<u8"),
        ("chunk", "<u8"),  # that is read with it next
        ("next", "<i8"),  # when, in nominal time
    ]
)
_RANKS_BEGIN, _ROWS_BEGIN = 1 << 8, 1 << 16
_MORE_ROWS = 1 << 12
_NEVER, _UNKNOWN = 2**63 - 2, 2**63 - 1  # what other corpora need leaves first
_AT_ONCE = 64  # readers closer than this part of a sweep read at about the same time

# Bytes that are locked: for the table, for each process, and for each key that is fetched.
_TURN, _FIRST_RANK, _FIRST_KEY = 1 << 40, 1 << 41, 1 << 42
_TURN_SECONDS = 1.0  # it is held for microseconds, unless who holds it was stopped
_SHUN_SECONDS = 30.0

_ENTRY_NAME = re.compile(r"[0-9a-f]{32}")
_UNFINISHED_NAME = re.compile(r"unfinished-[0-9a-f]{32}")


class Uses(Protocol):
    """The future: when chunks are read; see `ChunkUses` of sources."""

    corpus: int
    timeline: int
    sweep: int

    def next(
        self,
        chunks: NDArray[np.uint64],
        time: int,
        readers: Sequence[tuple[int, int]],
        *,
        skips_one: bool,
    ) -> NDArray[np.uint64]:
        """Return when each is read next after a time.

        Readers are pairs: how many workers there are, and which of them reads.
        """


class Busy(Exception):
    """Another process holds the lock of the folder for too long, or the folder was left."""


class CacheFolder:
    """View of the folder for one process. Safe for several threads."""

    def __init__(self, path: Path, max_bytes: int, uses: Uses) -> None:
        check_byte_locks()
        self.path, self.max_bytes = path, max_bytes
        self.evictions = self.damaged = 0  # entries that left for others, or had to
        self._uses = uses
        self._time, self._reader, self._has_moved = 0, (1, 0), True
        self._threads, self._publishing = threading.Lock(), threading.Lock()
        self._shunned_until, self._is_open = 0.0, True
        self.mark = _prepare(path)
        self._entries = path / "entries"
        self._entries.mkdir(exist_ok=True)
        self._lock, self._table = ByteLocks(self.mark), NodeTable(self.mark)
        self._number = -1  # of this process
        try:
            with self._turn():
                self._begin()
            self.publish(0, 1, 0)
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Take over the entries, and remove files that a killed process left."""
        names = os.listdir(self._entries)  # noqa: PTH208
        there = {name.encode() for name in names if _ENTRY_NAME.fullmatch(name)}
        rows = self._table.rows()
        rows_of = {rows["key"][one].item(): one for one in np.flatnonzero(rows["key"]).tolist()}
        for key in there - rows_of.keys():
            self._path(key).unlink()
        if not any(self._lives(number) for number in range(MOST_RANKS)):
            # Other rows are of killed writers, or were torn by a power failure.
            kept = [(number, key) for key, number in rows_of.items() if key in there]
            sound = np.zeros_like(rows)
            for number, key in kept:
                sound[number] = rows[number]
                sound["bytes"][number] = self._path(key).stat().st_size
            for number in np.flatnonzero(sound != rows).tolist():
                self._table.write(number, sound[number])
            for name in filter(_UNFINISHED_NAME.fullmatch, names):
                (self._entries / name).unlink()
        free = (one for one in range(MOST_RANKS) if self._lock.lock(_FIRST_RANK + one))
        self._number = next(free, -1)
        if self._number < 0:
            raise ValueError(f"more than {MOST_RANKS} processes use the node cache {self.path}")
        used = int(self._table.rows()["bytes"].sum())
        room = used + shutil.disk_usage(self.path).free
        if self.max_bytes > room:
            raise ValueError(
                f"max_bytes of the node cache is {self.max_bytes}, but the disk of "
                f"{self.path} has only {room} bytes for it; give less"
            )
        self._make_room(0, 0)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the folder's lock."""
        begin = time.monotonic()
        end = begin + _TURN_SECONDS
        if begin < self._shunned_until or not self._threads.acquire(timeout=_TURN_SECONDS):
            raise Busy
        try:
            delay = 1e-4
            while self._is_open and not self._lock.lock(_TURN):
                if time.monotonic() > end:
                    self._shunned_until = end + _SHUN_SECONDS
                    raise Busy
                time.sleep(delay)
                delay = min(2 * delay, 5e-3)
            if not self._is_open:
                raise Busy
            try:
                yield
            finally:
                self._lock.unlock(_TURN)
        finally:
            self._threads.release()

    def publish(self, time: int, num_workers: int, worker: int) -> None:
        """Publish the position of this process."""
        if not self._time <= time <= self._time + self._uses.sweep // 2:
            self._has_moved = True  # so that other chunks come next
        self._time, self._reader = time, (num_workers, worker)
        rank = np.array((self._uses.timeline, time, num_workers, worker), _RANK).tobytes()
        place = _RANKS_BEGIN + self._number * _RANK.itemsize
        with self._publishing:
            if self._is_open:
                os.pwrite(self._table.fileno(), rank, place)

    def read(self, key: Key, size: int, padding: int) -> NDArray[np.uint8] | None:
        """Return the content of an entry and zeros; None if it is absent, or damaged."""
        try:
            with self._path(key).open("rb") as file:
                head, (label, content) = file.read(len(ENTRY.head)), read_block(file)
                is_it = (head, label, content.nbytes) == (ENTRY.head, key, size)
                if not is_it or file.read(1):
                    raise ValueError("another entry, or bytes after it")
        except FileNotFoundError:
            return None
        except ValueError:
            self.damaged += 1
            with self._turn():
                self._remove(key)
            return None
        found = np.frombuffer(content, np.uint8)
        return np.append(found, np.zeros(padding, np.uint8)) if padding else found

    def note_use(self, key: Key, chunk: int) -> None:
        """Record the next use of an entry that was just used."""
        with self._turn():
            row = self._table.find(key)
            if row is None:
                return
            old, wanted = self._table.rows()[row], self._time_of_next(chunk)
            is_known = old["timeline"] == self._uses.timeline and old["chunk"] != chunk
            if not (is_known and self._time < old["next"] <= wanted):
                self._keep(row, key, int(old["bytes"]), chunk, wanted)

    def store(self, chunk: int, content: NDArray[np.uint8], key: Key) -> None:
        """Keep fetched bytes, if they are needed sooner than others or there is room."""
        size = content.size + HEAD_BYTES
        with self._turn():
            self._remove(key)  # the row of a writer that was killed
            self._look_again()
            wanted = self._time_of_next(chunk)
            if not self._make_room(size, wanted + 1):
                return
            self._keep(self._table.free_row(), key, size, chunk, wanted)
        # Only the holder of the lock writes it.
        unfinished = self._entries / f"unfinished-{key.decode()}"
        try:
            with unfinished.open("wb") as file:
                file.write(ENTRY.head + block_head(key, content.data))
                file.write(content.data)
            with self._turn():
                if self._table.find(key) is not None:  # it may have had to leave meanwhile
                    unfinished.rename(self._path(key))
        except OSError:
            with self._turn():
                self._remove(key)
            raise
        finally:
            unfinished.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the folder."""
        with self._threads, self._publishing:
            if self._is_open:
                self._is_open = False
                if self._number >= 0:
                    self._lock.unlock(_FIRST_RANK + self._number)
                self._lock.close()
                self._table.close()

    def _make_room(self, size: int, least: int) -> bool:
        """Have entries leave, the last needed first, if enough are needed from `least` on."""
        rows = self._table.rows()
        excess = int(rows["bytes"].sum()) + size - self.max_bytes
        times = np.where(rows["timeline"] == self._uses.timeline, rows["next"], _UNKNOWN)
        times[rows["key"] == b""] = -1
        leaving: list[Key] = []
        while excess > 0:
            last = int(times.argmax())
            if times[last] < least:
                return False
            times[last] = -1
            excess -= int(rows["bytes"][last])
            leaving.append(rows["key"][last].item())
        for key in leaving:
            self._remove(key)
        self.evictions += len(leaving)
        return True

    def _look_again(self) -> None:
        """Look up the next time of entries that were not used when they should have been."""
        rows, uses = self._table.rows(), self._uses
        is_late = (rows["timeline"] == uses.timeline) & (rows["next"] <= self._time)
        late = np.flatnonzero((rows["corpus"] == uses.corpus) & (is_late | self._has_moved))
        self._has_moved = False
        if not late.size:
            return
        readers = list({self._reader, *(reader for reader, _ in self._peers())})
        chunks = rows["chunk"][late]
        times = uses.next(chunks, self._time, readers, skips_one=False).tolist()
        for number, wanted in zip(late.tolist(), times, strict=True):
            row = rows[number]
            self._keep(number, row["key"].item(), int(row["bytes"]), int(row["chunk"]), wanted)

    def _time_of_next(self, chunk: int) -> int:
        """Return when an entry is needed after the use for which a chunk is loaded."""
        now, mine, sweep = self._time, self._reader, self._uses.sweep
        peers = self._peers()
        others = list({reader for reader, _ in peers} - {mine})
        alone = np.array([chunk], np.uint64)
        found = self._uses.next(alone, now, [mine], skips_one=True).tolist()
        if others:
            found += self._uses.next(alone, now, others, skips_one=False).tolist()
        # Those with the same data come by when they have caught up.
        lags = [now - time for reader, time in peers if reader == mine]
        near = [lag for lag in lags if 0 <= lag < sweep // 2]
        if near:
            found.append(now + max(near) + sweep // _AT_ONCE + 1)
        return int(min([*found, _NEVER]))

    def _peers(self) -> list[tuple[tuple[int, int], int]]:
        """Return shares and nominal times of the other processes of this timeline."""
        ranks = self._table.ranks()
        numbers = np.flatnonzero(ranks["timeline"] == self._uses.timeline).tolist()
        there = [ranks[one].tolist() for one in numbers if self._lives(one)]
        return [((workers, worker), time) for _, time, workers, worker in there]

    def _lives(self, number: int) -> bool:
        """Return True if a number is that of another process, which has not ended."""
        return number < MOST_RANKS and self._lock.is_locked(_FIRST_RANK + number)

    def _keep(self, number: int, key: Key, size: int, chunk: int, wanted: int) -> None:
        mine = self._uses.corpus, self._uses.timeline
        row = key, size, *mine, chunk, min(wanted, _NEVER)
        self._table.write(number, np.array(row, _ROW))

    def _path(self, key: Key) -> Path:
        return self._entries / key.decode()

    def _remove(self, key: Key) -> None:
        self._path(key).unlink(missing_ok=True)
        number = self._table.find(key)
        if number is not None:
            self._table.write(number, np.zeros((), _ROW))


class NodeTable(Descriptor):
    """Where processes stand, and what is kept: read in memory, written row by row."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_CREAT)
        self._memory: NDArray[np.uint8] = np.empty(0, np.uint8)

    def ranks(self) -> NDArray[Any]:
        """Return where each process stands, or stood."""
        return self._mapped()[_RANKS_BEGIN:][: MOST_RANKS * _RANK.itemsize].view(_RANK)

    def rows(self) -> NDArray[Any]:
        """Return what is kept; free rows are zeros."""
        rows = self._mapped()[_ROWS_BEGIN:]
        return rows[: rows.size // _ROW.itemsize * _ROW.itemsize].view(_ROW)

    def find(self, key: Key) -> int | None:
        """Return the row of a key."""
        rows = self.rows()
        # Ten times as fast as to compare whole keys.
        begins = rows.view("<u8").reshape(-1, _ROW.itemsize // 8)[:, 0]
        near = np.flatnonzero(begins == int.from_bytes(key[:8], "little")).tolist()
        return next((one for one in near if rows["key"][one] == key), None)

    def free_row(self) -> int:
        """Return the number of a free row; more are made if need be."""
        found = self.find(b"")
        if found is not None:
            return found
        os.ftruncate(self._fd, self._memory.size + _MORE_ROWS * _ROW.itemsize)
        return self.free_row()

    def write(self, number: int, row: NDArray[Any]) -> None:
        """Replace a row."""
        os.pwrite(self._fd, row.tobytes(), _ROWS_BEGIN + number * _ROW.itemsize)

    def _mapped(self) -> NDArray[np.uint8]:
        size = os.fstat(self._fd).st_size
        if size < _ROWS_BEGIN:
            os.ftruncate(self._fd, size := _ROWS_BEGIN)
        if size != self._memory.size:
            memory = mmap.mmap(self._fd, size, prot=mmap.PROT_READ)
            self._memory = np.frombuffer(memory, np.uint8)
        return self._memory


class FetchLock(ByteLocks):
    """The right to fetch an entry, which ends with the process."""

    def __init__(self, mark: Path, key: Key) -> None:
        super().__init__(mark)
        self.key = key
        self._byte = _FIRST_KEY + int(key[:14], 16)

    def take(self) -> bool:
        """Take it; return False where another has it."""
        return self.lock(self._byte)

    def close(self) -> None:
        """Give it back."""
        if self.fileno() >= 0:
            self.unlock(self._byte)  # not by closing alone, as a child may have been forked
        super().close()


def key_of(*identity: object) -> Key:
    """Return the key of a range of an object."""
    return blake2b(repr(identity).encode(), digest_size=16).hexdigest().encode()


def _prepare(path: Path) -> Path:
    """Make the folder if need be, and return the file that marks it as a cache."""
    mark = path / MARK
    try:
        path.mkdir(parents=True, exist_ok=True)
        names = sorted(os.listdir(path))  # noqa: PTH208
        if names and MARK not in names:
            raise ValueError(
                f"the folder of a node cache must be its own, but {path} holds other things, "
                f"such as {names[0]!r}; name an empty one, or one that does not exist"
            )
        file = Descriptor(mark, os.O_CREAT)
        if os.pread(file.fileno(), len(_WORDS), 0) not in (b"", _WORDS):
            raise ValueError(f"{path} is a node cache of another version; delete it")
        os.pwrite(file.fileno(), _WORDS, 0)  # several processes may, as the bytes are the same
    except OSError as error:
        reason = f"the node cache cannot be kept here: {error.strerror}"
        raise type(error)(error.errno, reason, str(path)) from None
    return mark
