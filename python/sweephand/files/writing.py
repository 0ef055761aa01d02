"""Errors of files that are written: they name the file, and what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def writing(path: Path, kept: str) -> Iterator[None]:
    """Have an OSError name a file, and what is kept of it.

    Raises
    ------
    OSError
        In place of one, of the same number, and so of the same class.
    """
    try:
        yield
    except OSError as error:
        raise named(error, path, kept) from error


def named(error: OSError, path: Path, kept: str) -> OSError:
    """Return an error of the same number that names a file, and what is kept of it."""
    return OSError(error.errno, f"{error.strerror or error}; {kept}", str(path))
