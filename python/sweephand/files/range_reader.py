"""A file that is read by ranges, as a Python file object."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand.files.local import LocalFile
from sweephand.files.remote import current, entered
from sweephand.files.source_file import SourceFile

if TYPE_CHECKING:
    from concurrent.futures import Future

_SCAN_BLOCK = 4 << 20
_BLOCKS_AHEAD = 3


class RangeReader(io.RawIOBase):
    """Read a file as libraries want to read it; every read is one request.

    They may read it with threads of their own, for the chunk that is loaded where it is made.
    """

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._at = 0
        self._loading = current()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
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
            with entered(self._loading):
                self._file.read_into(self._at, out[:count])
        self._at += count
        return count


class _BlockReader(RangeReader):
    """Read an object block by block, several ahead while reads follow one another."""

    def __init__(self, file: SourceFile) -> None:
        from concurrent.futures import ThreadPoolExecutor  # only here, as it brings logging

        super().__init__(file)
        self._num_blocks = -(-file.size // _SCAN_BLOCK)
        self._number = -1  # of the block that is held
        self._block: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._ahead: dict[int, Future[NDArray[np.uint8]]] = {}
        self._threads = ThreadPoolExecutor(_BLOCKS_AHEAD, "sweephand-ahead")

    def readinto(self, buffer: object) -> int:
        """Fill a buffer as far as the block goes."""
        out = np.frombuffer(buffer, np.uint8)  # type: ignore[call-overload] # a writable buffer
        if self._at >= self._file.size:
            return 0
        number, inside = divmod(self._at, _SCAN_BLOCK)
        if number != self._number:
            self._enter(number)
        count = min(out.size, self._block.size - inside)
        out[:count] = self._block[inside : inside + count]
        self._at += count
        return int(count)

    def close(self) -> None:
        """Wait for no block any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        super().close()

    def _enter(self, number: int) -> None:
        follows = number == self._number + 1
        known = self._ahead.pop(number, None)
        if follows:
            last = min(number + 1 + _BLOCKS_AHEAD, self._num_blocks)
            for later in range(number + 1, last):
                if later not in self._ahead:
                    self._ahead[later] = self._threads.submit(self._fetch, later)
        self._block = self._fetch(number) if known is None else known.result()
        self._number = number

    def _fetch(self, number: int) -> NDArray[np.uint8]:
        begin = number * _SCAN_BLOCK
        return self._file.fetch(begin, min(_SCAN_BLOCK, self._file.size - begin))


def open_to_scan(file: SourceFile) -> io.BufferedReader:
    """Open a file for reading from beginning to end: few requests, each of several MB."""
    reader = RangeReader(file) if isinstance(file, LocalFile) else _BlockReader(file)
    return io.BufferedReader(reader, _SCAN_BLOCK)
