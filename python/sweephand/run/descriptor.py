"""Owner of a descriptor of a file."""

from __future__ import annotations

import os
from pathlib import Path


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
