"""The file that one worker appends its steps to."""

from __future__ import annotations

import errno
import time
from abc import ABC, abstractmethod
from pathlib import Path

from sweephand.extend import AppendedFile, FileLock

_MOST_SECONDS = 5.0  # that records wait to be written
_KEPT = "what it had before stays, and what waits is written when there is room"


class StepFile(ABC):
    """A file of records of steps that is open to be written to, by one process.

    OSError is raised if it cannot be written to, or another process does so; DataError if it is
    damaged. `kind` is the class that users know, and `what` its content, for errors.

    Attributes
    ----------
    path : Path
    last_step : int
        The last step that it has, those that wait to be written included; 0 if none.
    """

    def __init__(self, path: Path, kind: str, what: str) -> None:
        self.path = path
        self.last_step = 0
        self._since: float | None = None  # when the first waiting record came
        self._file = _open_alone(path, kind, what)
        try:
            self._find_end(None)
        except BaseException:
            self._file.close()
            raise

    @abstractmethod
    def _find_end(self, step: int | None) -> None:
        """Read the end of the file, or of a step; later blocks are overwritten."""

    @abstractmethod
    def _write_waiting(self) -> None:
        """Write the records that wait, if any; those that fail wait on."""

    @abstractmethod
    def _mark_end(self, *, is_closed: bool) -> None:
        """Mark the end of a file that is on its way to the disk, or is closed."""

    @abstractmethod
    def rewind(self, step: int) -> None:
        """Drop all records after a step; after step 0 all records."""

    def flush(self, *, to_disk: bool = False) -> None:
        """Write waiting records, to the disk on request; records that fail wait on."""
        if not self._file.is_mine:  # a fork, whose parent will write the same
            return
        self._write_waiting()
        self._since = None
        if to_disk:
            self._mark_end(is_closed=False)
            self._file.sync()

    def close(self) -> None:
        """Write waiting records, and close the file."""
        if not self._file.is_open:
            return
        try:
            self.flush()
            if self._file.is_mine:
                self._mark_end(is_closed=True)
        finally:
            self._file.close()

    def _flush_if_due(self, *, is_full: bool) -> None:
        """Write waiting records if there are many, or the first came long ago."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if is_full or now - self._since >= _MOST_SECONDS:
            self.flush()


def _open_alone(path: Path, kind: str, what: str) -> AppendedFile:
    """Open a file to append to, and refuse a second writer; OSError if it cannot be written to.

    File systems without locks refuse no writer.
    """
    lock = FileLock(path)
    try:
        while not (_is_taken(lock, kind, what) and lock.is_current):
            lock.close()
            lock = FileLock(path)
    except BaseException:
        lock.close()
        raise
    return AppendedFile(lock, _KEPT)


def _is_taken(lock: FileLock, kind: str, what: str) -> bool:
    try:
        if lock.take(wait=False):
            return True
    except OSError:  # file systems that know no locks
        return True
    reason = (
        f"another run, or another {kind} of this one, writes to this {what}; close that "
        "one, or give each its own"
    )
    raise BlockingIOError(errno.EWOULDBLOCK, reason, str(lock.path))
