"""Paths of this machine and of stores, by the same methods, and reads through them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from glob import glob, has_magic
from io import BufferedReader, RawIOBase
from operator import attrgetter
from os import PathLike
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from sweephand.errors import DataError
from sweephand.files.local import open_regular, stat_file
from sweephand.files.range_reader import RangeReader
from sweephand.files.remote import (
    canonical,
    describe_listed,
    describe_objects,
    info_of,
    list_folder,
    read_object,
)
from sweephand.files.source_file import SourceFile, is_leftover, is_passed_folder, spec_of
from sweephand.files.urls import WEB, is_pattern, is_url, shown, split_end

Info = Mapping[str, Any]

_NOTHING: Info = MappingProxyType({})


@dataclass(frozen=True)
class RemotePath:
    """A URL with the methods of a `pathlib.Path`; what a store said of it is remembered.

    Where it has a query or parameters it is good for one object alone: there is nothing beside
    or below it.
    """

    url: str = field(repr=False)
    _known: Info | None = field(default=None, compare=False, repr=False)
    _folder: RemotePath | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return shown(self.url)

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __reduce__(self) -> tuple[type[RemotePath], tuple[str]]:
        return type(self), (self.url,)

    def __fspath__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> RemotePath:
        below = self._near(f"{self._base}/{name}")
        return below if below._known is not None else RemotePath(below.url, None, self)

    @property
    def name(self) -> str:
        """The last part."""
        return self._base.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The last part without its suffix."""
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        """The suffix of the last part, with its dot."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        """The folder."""
        return self._near(self._base.rpartition("/")[0])

    def with_name(self, name: str) -> RemotePath:
        """Return the path of another name in the same folder."""
        if self._folder is not None:
            return self._folder / name
        return self._near(f"{self.parent._base}/{name}")

    @property
    def _base(self) -> str:
        return split_end(self.url)[0]

    def _near(self, url: str) -> RemotePath:
        return RemotePath(url, None if self._base == self.url else _NOTHING)

    @cached_property
    def info(self) -> Info:
        """The store's information on it; empty where there is nothing."""
        if self._known is not None:
            return self._known
        if self._folder is None:
            return info_of(self.url)
        return self._folder._info_below(self.url)

    def _info_below(self, url: str) -> Info:
        """Return the information on a path in this folder, from its list if there is a list."""
        if self.is_file():
            return _NOTHING
        if url.rpartition("/")[0] != self.url or url.startswith(WEB) or not self.is_dir():
            return info_of(url)
        return self._listing.get(url, _NOTHING)

    @cached_property
    def _listing(self) -> Mapping[str, Info]:
        """The store's information on all objects in a folder, by URL."""
        return list_folder(self.url) if self._base == self.url else {}

    @cached_property
    def file(self) -> SourceFile:
        """The object, as it was when it was first asked."""
        (found,) = describe_objects([self.url], {self.url: self.info}, trusted=True)
        return found

    def exists(self) -> bool:
        """Return True if there is anything, as it was when it was first asked."""
        return bool(self.info)

    def is_file(self) -> bool:
        """Return True if it is an object, as it was when it was first asked."""
        return self.info.get("type") == "file"

    def is_dir(self) -> bool:
        """Return True if it is a folder, as it was when it was first asked."""
        return self.info.get("type") == "directory"

    def iterdir(self, kind: str = "file") -> Iterator[RemotePath]:
        """Iterate over the objects of a folder, or over its folders ("directory")."""
        for url, info in self._listing.items():
            if info["type"] == kind:
                yield RemotePath(url, info, self)


AnyPath = Path | RemotePath


def as_path(spec: str | PathLike[str]) -> AnyPath:
    """Return a path, with the user's folder for ``~``, or the remote path of a URL."""
    text = spec_of(spec)
    if not is_url(text):
        return Path(text)
    text = canonical(text)
    return RemotePath(text.rstrip("/")) if "://" in text else Path(text)


def is_glob(spec: str | PathLike[str]) -> bool:
    """Return True if a path or URL is a pattern; an existing path never is."""
    text = spec_of(spec)
    if is_url(text):
        return is_pattern(text)
    return has_magic(text) and not Path(text).exists()


def folders_like(spec: str | PathLike[str]) -> list[Path]:
    """Return the local folders that match a pattern, by name, without hidden folders."""
    # Path.glob has no absolute patterns.
    found = () if is_url(spec_of(spec)) else glob(spec_of(spec), recursive=True)  # noqa: PTH207
    folders = [Path(path) for path in sorted(set(found)) if Path(path).is_dir()]
    return [folder for folder in folders if not is_leftover(folder.name, hidden=True)]


def open_file(path: AnyPath) -> RawIOBase | BufferedReader:
    """Open a file to be read; every read of an object in a store is one request."""
    return open_regular(path) if isinstance(path, Path) else RangeReader(stat_all([path])[0])


def read_file(path: AnyPath) -> bytes:
    """Return all of a file; see `open_file`."""
    if not isinstance(path, Path):
        return read_object(path.url)
    with open_regular(path) as file:
        return file.read()


def stat_all(paths: Sequence[AnyPath]) -> list[SourceFile]:
    """Look at files; many files of a store are found by a list of their folder."""
    remote = [path.url for path in paths if isinstance(path, RemotePath)]
    objects = iter(describe_listed(remote))
    return [stat_file(path) if isinstance(path, Path) else next(objects) for path in paths]


def bytes_at(path: AnyPath) -> int | None:
    """Return the bytes of a file, or of all data in a folder; None where they are unknown."""
    if isinstance(path, Path):
        files = path.rglob("*") if path.is_dir() else [path]
        data = (file for file in files if file.is_file() and not is_leftover(file.name))
        return sum(file.stat().st_size for file in data)
    if path.is_file():
        known: int | None = path.info.get("size")
        return known
    sizes: list[Any] = [one.info.get("size") for one in path.iterdir()]
    return sum(sizes) if sizes and None not in sizes else None


def file_at(path: AnyPath) -> SourceFile | None:
    """Return a file as it is now; None if there is none."""
    if isinstance(path, RemotePath):
        return path.file if path.is_file() else None
    with suppress(OSError, ValueError, DataError):  # also if it is a folder
        return stat_file(path)
    return None


def files_at(path: AnyPath, pattern: str = "*") -> list[AnyPath]:
    """Return a file, or the files of a folder without the leftovers of writers."""
    if not path.is_dir():
        return [path]
    found: list[AnyPath] = []
    if isinstance(path, RemotePath):
        found += path.iterdir()
    else:
        found += [path / one.name for one in _listed(path) if one.is_file()]
    chosen = (one for one in found if fnmatchcase(one.name, pattern))
    return sorted((one for one in chosen if not is_leftover(one.name)), key=attrgetter("name"))


def folders_at(path: AnyPath) -> list[AnyPath]:
    """Return the folders in a folder, by name; see `files_at`, without hidden ones."""
    found: list[AnyPath] = []
    if isinstance(path, RemotePath):
        found += path.iterdir("directory")
    else:
        found += [path / one.name for one in _listed(path) if one.is_dir()]
    return sorted(
        (one for one in found if not is_passed_folder(one.name)), key=attrgetter("name")
    )


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; a link to nothing or a pipe is an error."""
    with os.scandir(folder) as entries:
        found = list(entries)
    for one in found:
        if not (one.is_file() or one.is_dir() or is_leftover(one.name)):
            stat_file(one.path)
    return found
