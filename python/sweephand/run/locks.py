"""File locks, which the kernel releases when their holder ends.

A lock belongs to an open descriptor, not to a process: two openings in one process exclude each
other as processes do. A forked child shares the lock of its parent; releasing it in the parent
releases it for both.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of file systems that have no locks."""

_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, process


class Descriptor:
    """Holds a descriptor of a file, and closes it at its own end at the latest."""

    _fd = -1  # where opening fails

    def __init__(self, path: Path, flags: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o666)

    def fileno(self) -> int:
        """Return the descriptor; -1 once it is closed."""
        return self._fd

    def close(self) -> None:
        """Close the descriptor, which releases its locks."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class FileLock(Descriptor):
    """An open file, made if need be, and the lock of all of it.

    The lock is `flock`, which Linux maps to byte-range locks over NFS.

    Raises
    ------
    OSError
        If the file cannot be opened for writing, or is a link.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process = os.getpid()
        super().__init__(path, os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK)

    @property
    def is_mine(self) -> bool:
        """True in the process that opened it, False in its forked children."""
        return self._process == os.getpid()

    @property
    def is_open(self) -> bool:
        """True until it is closed."""
        return self._fd >= 0

    @property
    def is_current(self) -> bool:
        """True while the open file is the file at the path."""
        try:
            there = self.path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(self._fd), there)

    def take(self, *, wait: bool) -> bool:
        """Take the lock; return False if another holder has it and `wait` is False.

        A wait ends when a signal handler raises, as that of Ctrl-C does.

        Raises
        ------
        OSError
            If the file cannot be locked: its number is one of `UNSUPPORTED` where the file
            system has no locks.
        """
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        except OSError as error:
            reason = f"it cannot be locked, {error.strerror or error}"
            raise OSError(error.errno, reason, str(self.path)) from error
        return True

    def close(self) -> None:
        """Release the lock and close the file; a forked child leaves the lock to its parent."""
        if self.is_open and self.is_mine and fcntl is not None:
            with suppress(OSError):  # by closing alone, children and maps would keep it
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        super().close()


def wait_for_lock(path: Path) -> FileLock:
    """Lock the file at a path, and wait for another holder; the file is made if need be."""
    while True:
        lock = FileLock(path)
        try:
            if lock.take(wait=True) and lock.is_current:
                return lock
        except BaseException:
            lock.close()
            raise
        lock.close()  # its last holder has removed or renamed it


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of a file that exists for the lock alone, and is removed afterwards."""
    lock = wait_for_lock(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.close()


def check_byte_locks() -> None:
    """Raise NotImplementedError on systems without locks of bytes."""
    if not hasattr(fcntl, "F_OFD_SETLK"):
        raise NotImplementedError("a node cache needs Linux, whose locks it uses")


class ByteLocks(Descriptor):
    """Locks of single bytes of a file.

    Nothing is written, and the bytes need not exist.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, 0)

    def lock(self, byte: int, *, shared: bool = False) -> bool:
        """Lock a byte, or return False where another descriptor has it."""
        kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
        try:
            self._call(fcntl.F_OFD_SETLK, kind, byte)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def unlock(self, byte: int) -> None:
        """Release a byte, for descriptors that a fork has copied too."""
        self._call(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte)

    def is_locked(self, byte: int) -> bool:
        """Return True if another descriptor has locked a byte."""
        return bool(self._call(fcntl.F_OFD_GETLK, fcntl.F_WRLCK, byte)[0] != fcntl.F_UNLCK)

    def _call(self, command: int, kind: int, byte: int) -> tuple[Any, ...]:
        request = struct.pack(_FLOCK, kind, os.SEEK_SET, byte, 1, 0)
        return struct.unpack(_FLOCK, fcntl.fcntl(self._fd, command, request))
