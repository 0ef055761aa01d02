"""Writing of files: whole files, and errors that name the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def writing(path: Path, kept: str = "") -> Iterator[None]:
    """Make an OSError name the file, and the part of it that is kept."""
    try:
        yield
    except OSError as error:
        raise named(error, path, kept) from error


def named(error: OSError, path: Path, kept: str = "") -> OSError:
    """Return an error of the same number that names a file, and the part of it that is kept."""
    reason = error.strerror or str(error)
    return OSError(error.errno, f"{reason}; {kept}" if kept else reason, str(path))


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Create a file that must not exist yet, and sync it in the end."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """Replace the file at a path: readers see the whole new file or the old file.

    It is written under a name of its own, synced, and renamed. An error leaves nothing.

    Raises
    ------
    OSError
        If the system refuses.
    """
    unfinished = path.with_name(f".{path.name.lstrip('.')}.{os.urandom(16).hex()}.tmp")
    try:
        with new_file(unfinished) as file:
            yield file
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
