"""A locked file that grows by whole pieces."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from sweephand.run.locks import FileLock
from sweephand.run.writing import writing


class AppendedFile:
    """A file that its lock's holder appends to.

    Parameters
    ----------
    lock : FileLock
        The open file. It is closed with this one.
    kept : str
        What stays of the file if a write fails, for errors.

    Attributes
    ----------
    end : int
        End of what counts, in bytes. What follows is written over.
    """

    def __init__(self, lock: FileLock, kept: str = "") -> None:
        self.end = 0
        self._lock = lock
        self._kept = kept

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._lock.path

    @property
    def is_mine(self) -> bool:
        """True in the process that opened it, False in its forked children."""
        return self._lock.is_mine

    @property
    def is_open(self) -> bool:
        """True until it is closed."""
        return self._lock.is_open

    def content(self) -> memoryview:
        """Map the file, which only this process shortens."""
        if not os.fstat(self._lock.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(self._lock.fileno(), 0, access=mmap.ACCESS_READ))

    def append(self, data: bytes) -> None:
        """Write after the end that counts."""
        self.append_over(data)
        self.end += len(data)

    def append_over(self, data: bytes) -> None:
        """Write after the end a piece that does not count, and drop all bytes after it.

        The next piece is written over it.
        """
        end, left = self.end, memoryview(data)
        with writing(self.path, self._kept):
            while left:
                written = os.pwrite(self._lock.fileno(), left, end)
                end, left = end + written, left[written:]
            os.ftruncate(self._lock.fileno(), end)  # a torn piece may have been longer

    def cut(self, end: int) -> None:
        """Drop all after a place."""
        with writing(self.path, self._kept):
            os.ftruncate(self._lock.fileno(), end)
        self.end = end

    def sync(self) -> None:
        """Return when the disk has it."""
        with writing(self.path, self._kept):
            os.fsync(self._lock.fileno())

    def close(self) -> None:
        """Close the file and release its lock."""
        self._lock.close()
