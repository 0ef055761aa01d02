"""A lock that keeps two runs from saving into one folder.

The lock is the system's, on a file that says who holds it: it ends with the process, however
that ends. Children that were forked hold it too, so a lock of a process that is no more is
taken over all the same.
"""

import contextlib
import errno
import json
import logging
import os
import socket
from pathlib import Path
from typing import Any, Self

from sweephand.run.locks import UNSUPPORTED, FileLock

logger = logging.getLogger("sweephand")

LOCK = ".lock"


def refuse_file(folder: Path) -> None:
    """Raise NotADirectoryError if the path of a folder is that of a file, as CNTK's were."""
    if folder.exists() and not folder.is_dir():
        reason = "checkpoints are kept in a folder, this is a file"
        raise NotADirectoryError(errno.ENOTDIR, reason, str(folder))


class FolderInUseError(BlockingIOError):
    """Another run is saving into the folder."""


class FolderLock:
    """The lock on a folder of checkpoints, which is created if it is missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / LOCK
        self._lock: FileLock | None = None

    def __enter__(self) -> Self:
        """Acquire it."""
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        """Release it."""
        self.release()

    def acquire(self) -> None:
        """Take the lock, or raise OSError if the folder cannot be made or written to.

        FolderInUseError names host and process of another run that holds it.
        """
        refuse_file(self._folder)
        try:
            while self._lock is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._try()
        except FolderInUseError:
            raise
        except OSError as error:
            reason = f"no checkpoint can be saved in {self._folder}: {error.strerror or error}"
            raise OSError(error.errno, reason, error.filename) from error

    def _try(self) -> None:
        lock = FileLock(self._path)
        try:
            self._lock = lock if self._is_taken(lock) else None
        finally:
            if self._lock is None:
                lock.close()

    def release(self) -> None:
        """Release the lock, if it is held, and remove its file.

        It raises nothing: a run may be ending by an error of its own. A file that stays is
        logged, and blocks no run.
        """
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            if lock.is_current:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s is not locked any more, but stays: %s", self._path, error)
        with contextlib.suppress(OSError):
            lock.close()

    def _is_taken(self, lock: FileLock) -> bool:
        """Lock an open file; return False if another one must be tried."""
        try:
            if not lock.take(wait=False):
                return self._take_over(lock)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            logger.warning("%s cannot be locked: see to it that one run uses it", self._folder)
        if not lock.is_current:  # its holder took it away meanwhile
            return False
        _write(lock.fileno())
        return True

    def _take_over(self, lock: FileLock) -> bool:
        """Remove the file of a holder that has ended; FolderInUseError if it has not."""
        holder = _read(lock.fileno())
        if not _is_gone(holder):
            raise FolderInUseError(
                errno.EWOULDBLOCK,
                f"{self._folder} is in use by process {holder.get('pid', 'unknown')} on "
                f"{holder.get('host', 'an unknown host')}, which saves its checkpoints there: "
                "two runs cannot share a folder, give each its own, or end that one first",
            )
        if lock.is_current:  # forked children hold the lock, and do not know of it
            self._path.unlink(missing_ok=True)
        return False


def _write(descriptor: int) -> None:
    """Write who holds the lock."""
    pid = os.getpid()
    holder = {"host": socket.gethostname(), "pid": pid, "started": _started(pid)}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder, allow_nan=False).encode(), 0)


def _read(descriptor: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:  # it is being written
        return {}
    return found if isinstance(found, dict) else {}


def _is_gone(holder: dict[str, Any]) -> bool:
    """Return True if the process that took a lock has certainly ended."""
    pid, started = holder.get("pid"), holder.get("started")
    if holder.get("host") != socket.gethostname() or started is None or type(pid) is not int:
        return False
    return bool(_started(pid) != started)


def _started(pid: int) -> str | None:
    """Return when a process started, or None if it has ended: its id may be reused."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    state, *numbers = status.rpartition(")")[2].split()
    return None if state in "ZX" else str(numbers[18])
