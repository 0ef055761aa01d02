"""A file that is open to one process at a time, which the others wait for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def locked(path: Path) -> BinaryIO:
    """Open a file for this process alone, and wait for another one that has it.

    Raises
    ------
    OSError
        If it cannot be written, or not be locked there.
    """
    import fcntl

    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        file = os.fdopen(os.open(path, flags, 0o644), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(path, file):
                return file
        except OSError as error:
            file.close()
            reason = f"it cannot be locked, {error.strerror or error}"
            raise OSError(error.errno, reason, str(path)) from error
        except BaseException:
            file.close()
            raise
        file.close()  # who had it has finished it


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of a file that is there for nothing else, and is removed afterwards.

    It ends with the process, however that ends.

    Raises
    ------
    OSError
        As `locked`.
    """
    import fcntl

    with locked(path) as file:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            fcntl.flock(file, fcntl.LOCK_UN)  # which forked children have, too


def _is_at(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
