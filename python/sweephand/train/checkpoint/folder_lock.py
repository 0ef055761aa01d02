"""A lock that keeps two runs from saving into one folder.

The lock is the system's, on a file that says who holds it: it ends with the process, however
that ends. Children that were forked hold it too, so a lock of a process that is no more is
taken over all the same.
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
from pathlib import Path
from typing import Any, Self

logger = logging.getLogger("sweephand")

LOCK = ".lock"
_UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


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
        self._descriptor: int | None = None

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
            while self._descriptor is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._try()
        except FolderInUseError:
            raise
        except OSError as error:
            reason = f"no checkpoint can be saved in {self._folder}: {error.strerror or error}"
            raise OSError(error.errno, reason, error.filename) from error

    def _try(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o666)
        try:
            self._descriptor = descriptor if self._is_taken(descriptor) else None
        finally:
            if self._descriptor is None:
                os.close(descriptor)

    def release(self) -> None:
        """Release the lock, if it is held, and remove its file.

        It raises nothing: a run may be ending by an error of its own. A file that stays is
        logged, and locks nobody out.
        """
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if _is_at(descriptor, self._path):
                self._path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s is not locked any more, but stays: %s", self._path, error)
        with contextlib.suppress(OSError):
            os.close(descriptor)

    def _is_taken(self, descriptor: int) -> bool:
        """Lock an open file; return False if another one must be tried."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _read(descriptor)
            if _is_gone(holder):  # its children hold the lock, which they know nothing of
                if _is_at(descriptor, self._path):
                    self._path.unlink(missing_ok=True)
                return False
            raise FolderInUseError(
                errno.EWOULDBLOCK,
                f"{self._folder} is in use by process {holder.get('pid', 'unknown')} on "
                f"{holder.get('host', 'an unknown host')}, which saves its checkpoints there: "
                "two runs cannot share a folder, give each its own, or end that one first",
            ) from error
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            logger.warning("%s cannot be locked: see to it that one run uses it", self._folder)
        if not _is_at(descriptor, self._path):  # its holder took it away meanwhile
            return False
        _write(descriptor)
        return True


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
    """Whether the process that took a lock has certainly ended."""
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


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one under a name."""
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return bool(os.path.samestat(os.fstat(descriptor), there))
