"""The cache on a disk of a node: its folder, which entries stay, and reads through it.

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
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand.files.remote import RemoteFile, entered
from sweephand.run.locks import ByteLocks, Descriptor, check_byte_locks
from sweephand.run.records import RecordKind, block_head, read_block

MARK = "sweephand-node-cache"
_WORDS = b"sweephand node cache 4: this folder and all in it may be deleted\n"

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
        ("timeline", "<u8"),  # a digest: in which times and chunks mean the same
        ("chunk", "<u8"),  # that is read with it next
        ("next", "<i8"),  # when, in nominal time
    ]
)
_RANKS_BEGIN, _ROWS_BEGIN = 1 << 8, 1 << 16
_MORE_ROWS = 1 << 12
_NEVER, _UNKNOWN = 2**63 - 2, 2**63 - 1  # what other timelines need leaves first

# Bytes that are locked: for the table, for each process, and for each key that is fetched.
_TURN, _FIRST_RANK, _FIRST_KEY = 1 << 40, 1 << 41, 1 << 42

# Waits in seconds: for the table, which is held for microseconds, and for a range that another
# process fetches. Who keeps others waiting longer was stopped: for a while none is waited for.
_TURN_SECONDS, _FETCH_SECONDS, _REST_SECONDS = 1.0, 10.0, 60.0

_ENTRY_NAME = re.compile(r"[0-9a-f]{32}")
_UNFINISHED_NAME = re.compile(r"unfinished-[0-9a-f]{32}")

Result = TypeVar("Result")


class Uses(Protocol):
    """The future: when chunks are read; see `ChunkUses` of sources."""

    timeline: int

    def next(
        self,
        chunks: NDArray[np.uint64],
        time: int,
        readers: Sequence[tuple[int, int]],
        *,
        skips_one: bool,
    ) -> NDArray[np.uint64]:
        """Return when each is read next; readers are numbers of workers, and which reads."""


class Busy(Exception):
    """Another process holds the lock of the folder for too long, or the folder was left."""


class CacheFolder:
    """View of the folder for one process. Safe for several threads."""

    def __init__(self, path: Path, max_bytes: int, uses: Uses) -> None:
        check_byte_locks()
        self.path, self.max_bytes = path, max_bytes
        self.evictions = self.damaged = 0  # entries that left for others, or had to
        self._uses = uses
        self._time, self._reader = 0, (1, 0)
        self._threads = threading.Lock()
        self.mark = _prepare(path)
        self._entries = path / "entries"
        self._entries.mkdir(exist_ok=True)
        self._lock, self._table = ByteLocks(self.mark), NodeTable(self.mark)
        self._number = -1  # of this process
        try:
            with self._turn():
                self._begin()
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
        self._write_place()
        self._make_room(0, 0)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the folder's lock."""
        end = time.monotonic() + _TURN_SECONDS
        if not self._threads.acquire(timeout=_TURN_SECONDS):
            raise Busy
        try:
            while self._lock.fileno() < 0 or not self._lock.lock(_TURN):
                if self._lock.fileno() < 0 or time.monotonic() > end:
                    raise Busy
                time.sleep(1e-3)
            try:
                yield
            finally:
                self._lock.unlock(_TURN)
        finally:
            self._threads.release()

    def publish(self, time: int, num_workers: int, worker: int) -> None:
        """Note the position of this process; others see it when this one uses the table."""
        self._time, self._reader = time, (num_workers, worker)

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

    def note_use(self, key: Key, size: int, chunk: int) -> None:
        """Record the next use of an entry that was just used."""
        with self._turn():
            number = self._table.find(key)
            if number is not None:
                self._keep(number, key, size, chunk, self._time_of_next(chunk))

    def store(self, key: Key, content: NDArray[np.uint8], chunk: int) -> None:
        """Keep fetched bytes, if they are needed sooner than others or there is room.

        Only the holder of the lock of the key may.
        """
        with self._turn():
            self._remove(key)  # the row of a writer that was killed
            wanted = self._time_of_next(chunk)
            if not self._make_room(content.size + HEAD_BYTES, wanted + 1):
                return
            self._keep(self._table.free_row(), key, content.size, chunk, wanted)
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
        with self._threads:
            if self._number >= 0 and self._lock.fileno() >= 0:
                self._lock.unlock(_FIRST_RANK + self._number)
            self._lock.close()
            self._table.close()

    def _make_room(self, size: int, least: int) -> bool:
        """Have entries leave, the last needed first, if enough are needed from `least` on."""
        rows = self._table.rows()
        excess = int(rows["bytes"].sum()) + size - self.max_bytes
        if excess <= 0:
            return True
        is_known = rows["timeline"] == self._uses.timeline
        times = np.where(is_known, rows["next"], _UNKNOWN)
        late = np.flatnonzero(is_known & (times <= self._time))
        if late.size:  # they were not used then, as their reader went elsewhere, say
            readers = list({self._reader, *(reader for reader, _ in self._peers())})
            now = self._uses.next(rows["chunk"][late], self._time, readers, skips_one=False)
            times[late] = np.minimum(now, _NEVER)
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

    def _time_of_next(self, chunk: int) -> int:
        """Return when an entry is needed after the use for which a chunk is loaded."""
        self._write_place()
        alone, find = np.array([chunk], np.uint64), self._uses.next
        found = find(alone, self._time, [self._reader], skips_one=True).tolist()
        for reader, time_ in self._peers():
            found += find(alone, time_, [reader], skips_one=False).tolist()
        return int(min([*found, _NEVER]))

    def _peers(self) -> set[tuple[tuple[int, int], int]]:
        """Return shares and nominal times of the other processes of this timeline."""
        ranks = self._table.ranks()
        numbers = np.flatnonzero(ranks["timeline"] == self._uses.timeline).tolist()
        there = [ranks[one].tolist() for one in numbers if self._lives(one)]
        return {((workers, worker), time) for _, time, workers, worker in there}

    def _lives(self, number: int) -> bool:
        """Return True if a number is that of another process, which has not ended."""
        return self._lock.is_locked(_FIRST_RANK + number)

    def _write_place(self) -> None:
        rank = np.array((self._uses.timeline, self._time, *self._reader), _RANK).tobytes()
        os.pwrite(self._table.fileno(), rank, _RANKS_BEGIN + self._number * _RANK.itemsize)

    def _keep(self, number: int, key: Key, size: int, chunk: int, wanted: int) -> None:
        row = key, size + HEAD_BYTES, self._uses.timeline, chunk, wanted
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


@contextmanager
def fetching(locks: ByteLocks, key: Key) -> Iterator[Callable[[], bool]]:
    """Yield a function that tries to take the right to fetch an entry; it ends with this."""
    byte = _FIRST_KEY + int(key[:14], 16)
    try:
        yield partial(locks.lock, byte)
    finally:
        locks.unlock(byte)  # not by closing alone, as a child may have been forked
        locks.close()


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


class NodeReads:
    """Reads of a source through a node's cache, in which a forked process has its own place."""

    def __init__(self, folder: Path, max_bytes: int, make_uses: Callable[[], Uses]) -> None:
        self._arguments = folder, max_bytes, make_uses
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._counts = Counter[str]()
        self._takes_more, self._rests_until = True, 0.0
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
        with entered(partial(self._fetch, chunk)):
            return load()

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

    def _fetch(
        self, chunk: int, file: RemoteFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        """Return bytes of an object: from the cache, or from the store and then for all."""
        folder, max_bytes = self._own(), self._arguments[1]
        is_kept = size and file.tells_apart and size + HEAD_BYTES <= max_bytes
        if folder is None or not is_kept:
            return self._request(file, offset, size, padding)
        key = key_of(file.path, file.size, file.tag, offset, size)
        found = self._read(key, chunk, size, padding)
        if found is not None or not self._takes_more:
            return self._request(file, offset, size, padding) if found is None else found
        locks = self._do(lambda folder: ByteLocks(folder.mark))
        if locks is None:  # the folder was removed, say
            return self._request(file, offset, size, padding)
        with fetching(locks, key) as take:
            begin = time.monotonic()
            while not (is_mine := take()) and begin >= self._rests_until:
                time.sleep(0.01)
                found = self._read(key, chunk, size, padding)
                if found is not None:
                    return found
                if time.monotonic() > begin + _FETCH_SECONDS:
                    self._rests_until = time.monotonic() + _REST_SECONDS
            # Another may have kept it just before.
            found = self._read(key, chunk, size, padding) if is_mine else None
            if found is None:
                found = self._request(file, offset, size, padding)
                if is_mine:
                    content = found[:size]
                    self._do(lambda folder: folder.store(key, content, chunk))
        return found

    def _read(self, key: Key, chunk: int, size: int, padding: int) -> NDArray[np.uint8] | None:
        content = self._do(lambda folder: folder.read(key, size, padding))
        if content is not None:
            self._count("hits", "bytes_read", size)
            self._do(lambda folder: folder.note_use(key, size, chunk))
        return content

    def _request(
        self, file: RemoteFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        content = file.request(offset, size, padding)
        file.look()  # none is kept, nor used, of an object that was replaced
        self._count("misses", "bytes_fetched", size)
        return content

    def _count(self, ranges: str, bytes_: str, size: int) -> None:
        with self._guard:
            self._counts.update({ranges: 1, bytes_: size})

    def _do(self, action: Callable[[CacheFolder], Result]) -> Result | None:
        """Do something with the folder; None where it cannot be done.

        When the disk fails the source goes on without keeping more, and warns once.
        """
        folder = self._own()
        if folder is None or time.monotonic() < self._rests_until:
            return None
        try:
            return action(folder)
        except Busy:
            self._rests_until = time.monotonic() + _REST_SECONDS
        except OSError as error:
            if self._takes_more:
                self._takes_more = False
                self._warn(
                    f"takes no more: {error.strerror or error}; what it lacks comes from the "
                    "store every time"
                )
        return None

    def _warn(self, reason: str) -> None:
        message = f"the node cache {self._arguments[0]} {reason}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
