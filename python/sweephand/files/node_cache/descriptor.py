"""What holds a descriptor of a file, and closes it."""

from __future__ import annotations

import os
from pathlib import Path


class Descriptor:
    """Holds a descriptor, which is closed with it at the latest."""

    _fd = -1  # where opening fails

    def __init__(self, path: Path, flags: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o666)

    def close(self) -> None:
        """Give the descriptor back, and with it the locks that it has."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        self.close()
