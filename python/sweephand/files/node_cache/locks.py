"""Locks of single bytes of a file, which the kernel lets go of when their holder is gone.

They belong to the descriptor that took them, not to the process: threads with descriptors of
their own exclude each other as processes do. Nothing is written, and the bytes need not exist.
"""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from typing import Any

from sweephand.files.node_cache.descriptor import Descriptor

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, process


def check_supported() -> None:
    """Raise NotImplementedError on systems without such locks."""
    if not hasattr(fcntl, "F_OFD_SETLK"):
        raise NotImplementedError("a node cache needs Linux, whose locks it uses")


class LockFile(Descriptor):
    """A descriptor of a file, and the bytes that it has locked.

    Closing it lets go of them, and so does the end of the process.
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
        """Let go of a byte; descriptors that a fork has copied let go of it, too."""
        self._call(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte)

    def is_locked(self, byte: int) -> bool:
        """Return whether another descriptor has locked a byte."""
        return bool(self._call(fcntl.F_OFD_GETLK, fcntl.F_WRLCK, byte)[0] != fcntl.F_UNLCK)

    def _call(self, command: int, kind: int, byte: int) -> tuple[Any, ...]:
        told = struct.pack(_FLOCK, kind, os.SEEK_SET, byte, 1, 0)
        return struct.unpack(_FLOCK, fcntl.fcntl(self._fd, command, told))
