"""By how much a process grows."""

from __future__ import annotations

import resource
from pathlib import Path


def resident() -> int:
    """Return the bytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Growth:
    """What the process has in memory more than now."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
        self._before = resident()

    def most(self) -> int:
        """Return the bytes at the peak."""
        with Path("/proc/self/status").open() as lines:
            (peak,) = (line for line in lines if line.startswith("VmHWM"))
        return int(peak.split()[1]) * 1024 - self._before
