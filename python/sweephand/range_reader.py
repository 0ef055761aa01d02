"""A file that is read by ranges, as a Python file object."""

from __future__ import annotations

import io

import numpy as np

from sweephand.files import SourceFile

_SCAN_BUFFER = 8 << 20


class RangeReader(io.RawIOBase):
    """Read a file as libraries want to read it; every read is one request."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the place."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: object) -> int:
        """Fill a buffer as far as the file goes."""
        out = np.frombuffer(buffer, np.uint8)  # type: ignore[call-overload] # a writable buffer
        count = int(max(0, min(out.size, self._file.size - self._at)))
        if count:
            self._file.read_into(self._at, out[:count])
        self._at += count
        return count


def open_to_scan(file: SourceFile) -> io.BufferedReader:
    """Open a file that is read from its beginning to its end: few requests, each of some MB."""
    return io.BufferedReader(RangeReader(file), _SCAN_BUFFER)
