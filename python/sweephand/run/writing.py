"""Writing of files: whole files, errors that name the file, and JSON that all readers take."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def writing(path: Path, kept: str = "") -> Iterator[None]:
    """Make an OSError name the file, and the part of it that is kept."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        told = f"{reason}; {kept}" if kept else reason
        raise OSError(error.errno, told, str(path)) from error


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


# -- JSON --
_NOT_FINITE = ("inf", "-inf", "nan")


def to_json(
    value: object, *, default: Callable[[Any], object] | None = None, **options: Any
) -> str:
    r"""Return a value as JSON; the options are those of `json.dumps`.

    Numbers that are not finite are texts. A text that looks like one gets an apostrophe before
    it, so that all comes back as it was.

    Examples
    --------
    >>> to_json({"loss": float("inf"), "name": "inf"})
    '{"loss": "inf", "name": "\'inf"}'
    """
    own = None if default is None else lambda one: _strict(default(one))
    return json.dumps(_strict(value), allow_nan=False, default=own, **options)


def of_json(value: Any) -> Any:
    """Return the value that was given to `to_json`, from its parsed text.

    Examples
    --------
    >>> of_json({"loss": "inf", "name": "'inf"})
    {'loss': inf, 'name': 'inf'}
    """
    if isinstance(value, dict):
        return {key: of_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [of_json(item) for item in value]
    if isinstance(value, str) and value.lstrip("'") in _NOT_FINITE:
        return float(value) if value in _NOT_FINITE else value[1:]
    return value


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    looks_like_one = isinstance(value, str) and value.lstrip("'") in _NOT_FINITE
    return f"'{value}" if looks_like_one else value
