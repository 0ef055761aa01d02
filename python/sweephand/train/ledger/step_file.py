"""The file that one worker appends its steps to."""

from __future__ import annotations

import errno
from pathlib import Path

from sweephand.run.appended_file import AppendedFile
from sweephand.run.locks import FileLock

_KEPT = "what it had before stays, and what waits is written when there is room"


def open_alone(path: Path, kind: str, what: str) -> AppendedFile:
    """Open a file to append to, which is made if need be, and refuse a second writer.

    File systems without locks refuse nobody.

    Parameters
    ----------
    kind, what : str
        The class that users know, and what it writes, for errors.

    Raises
    ------
    OSError
        If it cannot be written to, or another run does so.
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
