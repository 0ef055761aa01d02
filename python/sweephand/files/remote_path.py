"""Paths of stores, by the methods of local paths; answers of stores are remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from sweephand.files.remote import describe_objects, info_of, list_folder
from sweephand.files.source_file import SourceFile
from sweephand.files.urls import WEB, shown, split_end

Info = Mapping[str, Any]

_NOTHING: Info = MappingProxyType({})


@dataclass(frozen=True)
class RemotePath:
    """A URL with the methods of a `pathlib.Path`.

    Where it has a query or parameters it is good for one object alone: there is nothing beside
    or below it.
    What a store said is remembered, so that all who look at a path ask once: what there is,
    the list of a folder, and the first bytes of an object.
    """

    url: str = field(repr=False)
    _known: Info | None = field(default=None, compare=False, repr=False)
    _folder: RemotePath | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the URL as it may be shown."""
        return shown(self.url)

    def __repr__(self) -> str:
        """Return the URL as it may be shown."""
        return f"RemotePath({str(self)!r})"

    def __reduce__(self) -> tuple[type[RemotePath], tuple[str]]:
        """Pickle without the answers of the store."""
        return type(self), (self.url,)

    def __fspath__(self) -> str:
        """Return the URL, as all that takes files takes it."""
        return self.url

    def __truediv__(self, name: str) -> RemotePath:
        """Return the path of a name in this folder."""
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

    def with_suffix(self, suffix: str) -> RemotePath:
        """Return the path of the same name with another suffix."""
        return self.with_name(self.stem + suffix)

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

    def iterdir(self) -> Iterator[RemotePath]:
        """Iterate over the objects of a folder, but not over its folders."""
        return iter(self._of_kind("file"))

    def folders(self) -> list[RemotePath]:
        """Return the folders of a folder."""
        return self._of_kind("directory")

    def _of_kind(self, kind: str) -> list[RemotePath]:
        listed = self._listing.items()
        return [RemotePath(url, info, self) for url, info in listed if info["type"] == kind]

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Iterate over those objects of a folder whose names match."""
        return (path for path in self.iterdir() if fnmatchcase(path.name, pattern))
