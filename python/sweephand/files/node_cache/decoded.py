"""Chunks that one process of a node has decoded, and the rest map.

A chunk lies in memory that has no name in any file system (memfd). A note in the folder says
which process has it, as which descriptor; others open it under /proc. The kernel frees it when
the last one who has mapped it is gone, however that happened, and a process that is stopped
can still be mapped from. What a note says is believed only if the memory says so itself, by
its name and by a digest of the key and the bytes, and if it cannot change any more.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.files.node_cache.entries import Key
from sweephand.files.node_cache.fetch_lock import FetchLock, Patience
from sweephand.files.node_cache.marker import prepare
from sweephand.run.locks import check_byte_locks

Chunk = _core.read.Chunk

# The wait for chunks that another process decodes; see `Patience`.
_PATIENCE = 2.0
_DIGEST_BYTES = 32  # after a chunk: hexadecimal digits
_FIRST_DELAY, _LAST_DELAY = 0.0005, 0.01


class DecodedChunks:
    """Decoded chunks that a process shares with its node.

    Parameters
    ----------
    folder : Path
        That of a cache, made if need be.
    max_bytes : int
        Of memory that this process offers at a time; a chunk beyond it is its own.

    Attributes
    ----------
    num_mapped, num_offered : int
        Chunks that others had decoded, and that they may map.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        check_byte_locks()
        self._mark, self._notes = prepare(folder), folder / "decoded"
        self._notes.mkdir(exist_ok=True)
        self.max_bytes = max_bytes
        self._begin()
        _remove_old_notes(self._notes)

    def _begin(self) -> None:
        self._process, self._guard = os.getpid(), threading.Lock()
        self._offered = 0  # bytes
        self._patience = Patience(_PATIENCE)
        self.num_mapped = self.num_offered = 0

    def load(self, key: Key, decode: Callable[[], Chunk]) -> Chunk:
        """Return a chunk that another process has decoded; or else decode it, for all."""
        if os.getpid() != self._process:  # it was forked
            self._begin()
        chunk = self._map(key)
        if chunk is not None:
            return chunk
        lock = FetchLock(self._mark, key)
        try:
            chunk = self._wait(lock)
            if chunk is None:
                chunk = decode()
                if lock.is_mine:
                    chunk = self._offer(key, chunk)
            return chunk
        finally:
            lock.close()

    def _wait(self, lock: FetchLock) -> Chunk | None:
        """Wait a little until another process has decoded a chunk, or has given up."""
        for _ in self._patience.attempts(_FIRST_DELAY, _LAST_DELAY):
            lock.take()
            chunk = self._map(lock.key)
            if chunk is not None or lock.is_mine:
                return chunk
        return None

    def _map(self, key: Key) -> Chunk | None:
        """Return a chunk that another process has decoded, if its note exists."""
        try:
            process, number = map(int, self._note(key).read_text().split())
            fd = os.open(f"/proc/{process}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            # Another process or file may have the numbers now.
            if _memory_at(f"/proc/self/fd/{fd}") != _name_of(key):
                return None
            packed = _checked(key, fd)
            if packed is None:
                return None
            chunk = _core.read.unpack(packed, None)
        except (OSError, ValueError):
            return None
        finally:
            os.close(fd)
        with self._guard:
            self.num_mapped += 1
        return chunk

    def _offer(self, key: Key, chunk: Chunk) -> Chunk:
        """Return the same chunk in shared memory, if that is possible."""
        packed_bytes = _core.read.packed_bytes(chunk)
        size = packed_bytes + _DIGEST_BYTES
        with self._guard:
            if not 0 < packed_bytes <= size <= self.max_bytes - self._offered:
                return chunk
            self._offered += size
        try:
            offer = _Offer(self, _name_of(key), size)
            _fill(offer.writable(), key, chunk)
            shared = _core.read.unpack(offer.seal()[:packed_bytes], offer)
            offer.publish(self._note(key))
        except OSError:  # no memory, no descriptor, or a folder that takes no more
            return chunk
        with self._guard:
            self.num_offered += 1
        return shared

    def take_back(self, size: int) -> None:
        """Count memory as free again."""
        with self._guard:
            self._offered -= size

    def _note(self, key: Key) -> Path:
        return self._notes / key.hex()


class _Offer:
    """Memory that other processes can map as long as this lives."""

    def __init__(self, chunks: DecodedChunks, name: str, size: int) -> None:
        self._chunks, self._size, self._process = chunks, size, os.getpid()
        self._note: Path | None = None
        self._fd = -1
        self._fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self._fd, size)

    def writable(self) -> NDArray[np.uint8]:
        """Return the memory; it must be gone before it is sealed."""
        return np.frombuffer(mmap.mmap(self._fd, self._size), np.uint8)

    def seal(self) -> NDArray[np.uint8]:
        """Return the memory, sealed against writes and cuts."""
        import fcntl  # not everywhere

        fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, _sealed() | fcntl.F_SEAL_SEAL)
        return _mapped(self._fd)

    def publish(self, note: Path) -> None:
        """Publish the place of the memory."""
        temporary = note.with_suffix(f".{self._process}-{self._fd}")
        temporary.write_text(f"{self._process} {self._fd}")
        temporary.rename(note)
        self._note = note

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        if os.getpid() != self._process:
            return  # that of a child is a copy
        self._chunks.take_back(self._size)
        if self._note is not None:
            with suppress(OSError):
                self._note.unlink()


def _fill(memory: NDArray[np.uint8], key: Key, chunk: Chunk) -> None:
    """Write a chunk, and after it the digest of its key and of all its bytes."""
    packed = memory[:-_DIGEST_BYTES]
    _core.read.pack(chunk, packed)
    memory[-_DIGEST_BYTES:] = np.frombuffer(_digest(key, packed), np.uint8)


def _checked(key: Key, fd: int) -> NDArray[np.uint8] | None:
    """Return the chunk in sealed memory if it is as it was written."""
    import fcntl  # not everywhere

    if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _sealed() != _sealed():
        return None
    memory = _mapped(fd)
    packed = memory[:-_DIGEST_BYTES]
    is_whole = memory[-_DIGEST_BYTES:].tobytes() == _digest(key, packed)
    return packed if is_whole else None


def _digest(key: Key, packed: NDArray[np.uint8]) -> bytes:
    digest = _core.base.Digest()
    digest.update(key)
    digest.update(packed.data)
    return digest.hex().encode()


def _sealed() -> int:
    import fcntl  # not everywhere

    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def _mapped(fd: int) -> NDArray[np.uint8]:
    return np.frombuffer(mmap.mmap(fd, 0, prot=mmap.PROT_READ), np.uint8)


def _name_of(key: Key) -> str:
    return f"sweephand-{key.hex()}"


def _memory_at(descriptor: str) -> str:
    """Return the name of the memory that a descriptor is of; empty if it is of none."""
    with suppress(OSError):
        found = os.readlink(descriptor)  # noqa: PTH115 - it is no path
        return found.removeprefix("/memfd:").removesuffix(" (deleted)")
    return ""


def _remove_old_notes(folder: Path) -> None:
    """Remove notes of processes that have ended, even if their numbers are in use again."""
    for note in folder.iterdir():
        with suppress(OSError, ValueError):
            words = note.read_text().split()
            key = bytes.fromhex(note.stem)
            if len(key) != 16 or len(words) != 2:
                continue
            process, number = map(int, words)
            if _memory_at(f"/proc/{process}/fd/{number}") != _name_of(key):
                note.unlink()
