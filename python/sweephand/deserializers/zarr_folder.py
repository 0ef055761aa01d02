"""The files of a Zarr store in a folder: regular ones, and the same whenever they are read."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from sweephand.checks import OptionalModule
from sweephand.errors import DataError, StaleError
from sweephand.files.local import refuse_irregular

_storage = OptionalModule("zarr.storage", extra="zarr")


def open_folder(path: Path) -> Any:
    """Return a read-only zarr store over a folder that checks the files it reads.

    A file that changed since it was first read is a StaleError, one that is no regular file a
    DataError, as is one outside of the folder that metadata name. What was absent counts as a
    file: a chunk without one holds the fill value.
    """
    return _kind()(_storage.LocalStore(path, read_only=True))


@cache
def _kind() -> Any:
    class Folder(_storage.WrapperStore):  # type: ignore[misc, name-defined]
        def __init__(self, store: Any) -> None:
            super().__init__(store)
            self._seen: dict[str, int] = {}

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            self._look_at(key)
            found = await super().get(key, prototype, byte_range)
            self._look_at(key)
            return found

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
            return [await self.get(key, prototype, part) for key, part in key_ranges]

        def _look_at(self, key: str) -> None:
            path = self._store.root / key
            if key.startswith("/") or ".." in key.split("/"):
                raise DataError(f"the store names {key!r}, which is outside of it", str(path))
            tag = _tag_of(path)
            if self._seen.setdefault(key, tag) != tag:
                raise StaleError("the file changed since it was first read", str(path))

    return Folder


def _tag_of(path: Path) -> int:
    """Return a fingerprint of a file."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return 0
    refuse_irregular(str(path), status.st_mode)
    return hash((status.st_size, status.st_mtime_ns, status.st_ino))
