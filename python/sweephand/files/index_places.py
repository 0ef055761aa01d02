"""Places of indexes: one hidden folder in a data folder, or the cache folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from sweephand.files.index_content import digest_of, meaning_of, to_json
from sweephand.files.local import LocalFile
from sweephand.files.source_file import SourceFile

FOLDER = ".sweephand"
SUFFIX = ".sweephand-index"

Keep = Literal["auto", "cache"] | None
"""The place of an index: beside the data or else in the cache; in the cache; nowhere."""


def check_keep(index: object) -> Keep:
    """Return the value of an option ``index=``.

    Raises
    ------
    ValueError
        If there is no such place.
    """
    if index == "auto" or index == "cache" or index is None:
        return index
    raise ValueError(f"index must be 'auto', 'cache' or None, got {index!r}")


def cache_folder() -> Path:
    """Return the folder for indexes that cannot be kept beside their data."""
    given = os.environ.get("SWEEPHAND_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sweephand"


def index_places(
    files: Sequence[SourceFile], meaning: Mapping[str, Any], keep: Keep = "auto"
) -> list[Path]:
    """Return the places for an index, the best first: its name is a hash of its meaning."""
    if keep is None:
        return []
    cached = cache_folder() / _cached_name(meaning, begin_of(files[0]))
    folder = folder_of(files[0])
    if keep == "cache" or folder is None:
        return [cached]
    name = f"{_kind(meaning)}.{digest_of(to_json(meaning))[:16]}{SUFFIX}"
    return [folder / FOLDER / name, cached]


def places_to_write(places: Sequence[Path], owners: Collection[int]) -> list[Path]:
    """Return the places that are ours: the index of another user is not replaced."""
    return [
        path
        for path in places
        if _is_ours(path, owners)
        and (path.parent.name != FOLDER or _is_ours(path.parent, owners, is_folder=True))
    ]


def clean_indexes(folder: Path | None, begins: Collection[str]) -> list[Path]:
    """Remove the indexes of a folder, and those in the cache."""
    cached = (path for path in _listed(cache_folder()) if _is_cached_of(path, begins))
    beside: list[Path] = []
    if folder is not None:
        beside = [path for path in _listed(folder / FOLDER) if SUFFIX in path.name]
    removed = []
    for path in [*beside, *cached]:
        path.unlink()
        removed.append(path)
    if folder is not None:
        with suppress(OSError):  # another file is kept there, or none
            (folder / FOLDER).rmdir()
    return removed


def folder_of(file: SourceFile) -> Path | None:
    """Return the folder that the names of local files are relative to."""
    if not isinstance(file, LocalFile):
        return None
    return Path(file.path).parents[len(Path(file.name).parents) - 1]


def begin_of(file: SourceFile) -> str:
    """Return the part of a file's path before its name."""
    return file.path.removesuffix(file.name)


def _kind(meaning: Mapping[str, Any]) -> str:
    return str(meaning["format"]).replace(" ", "-")


def _cached_name(meaning: Mapping[str, Any], begin: str) -> str:
    return f".{_kind(meaning)}.{digest_of(to_json([meaning, begin]))[:16]}{SUFFIX}"


def _is_cached_of(path: Path, begins: Collection[str]) -> bool:
    meaning = meaning_of(path) if path.name.endswith(SUFFIX) else None
    if meaning is None or "format" not in meaning:
        return False
    return path.name in {_cached_name(meaning, begin) for begin in begins}


def _is_ours(path: Path, owners: Collection[int], *, is_folder: bool = False) -> bool:
    """Return True if a path is free, or belongs to any of these owners."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return True  # the attempt to write there shows why
    return found.st_uid in owners and (not is_folder or stat.S_ISDIR(found.st_mode))


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.is_dir())
    except OSError:
        return []
