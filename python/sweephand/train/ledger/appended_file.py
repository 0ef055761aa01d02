"""A file that one process appends to, whole pieces at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
from pathlib import Path

from sweephand.files.writing import writing

_KEPT = "what it had before stays, and what waits is written when there is room"


class AppendedFile:
    """A file that is open to be appended to, by one process.

    Parameters
    ----------
    path : Path
        It is made if it is not there.
    kind, what : str
        The class that users know, and what it writes, for errors.

    Raises
    ------
    OSError
        If it cannot be written to, or another process does so.
    """

    def __init__(self, path: Path, kind: str, what: str) -> None:
        self.path = path
        self.end = 0  # of what counts; what lies behind is written over
        self._process = os.getpid()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o666)
        try:
            _lock(self._descriptor, path, kind, what)
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def is_mine(self) -> bool:
        """Whether this process opened it, and not one that it was forked from."""
        return self._process == os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether it was not closed."""
        return self._descriptor >= 0

    def content(self) -> memoryview:
        """Map the file, which nobody else shortens."""
        if not os.fstat(self._descriptor).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ))

    def append(self, data: bytes) -> None:
        """Write behind what counts."""
        self.append_over(data)
        self.end += len(data)

    def append_over(self, data: bytes) -> None:
        """Write behind what counts something that does not count: the next is written over it.

        What lay there is dropped.
        """
        end, left = self.end, memoryview(data)
        with writing(self.path, _KEPT):
            while left:
                written = os.pwrite(self._descriptor, left, end)
                end, left = end + written, left[written:]
            os.ftruncate(self._descriptor, end)  # what was torn there may have been longer

    def cut(self, end: int) -> None:
        """Drop what lies behind a place."""
        with writing(self.path, _KEPT):
            os.ftruncate(self._descriptor, end)
        self.end = end

    def sync(self) -> None:
        """Return when the disk has it."""
        with writing(self.path, _KEPT):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        if self.is_open:
            if self.is_mine:  # what is mapped yet, by an error that is held, has the lock too
                with contextlib.suppress(OSError):
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1


def _lock(descriptor: int, path: Path, kind: str, what: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        reason = (
            f"another run, or another {kind} of this one, writes to this {what}; close that "
            "one, or give each its own"
        )
        raise BlockingIOError(errno.EWOULDBLOCK, reason, str(path)) from error
    except OSError:  # file systems that know no locks
        return
