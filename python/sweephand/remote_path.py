"""Objects and folders of a store, by the methods of a path that are called here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from io import RawIOBase
from os import PathLike, fspath
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from sweephand.files import SourceFile, is_url, stat_file
from sweephand.range_reader import RangeReader
from sweephand.remote import canonical, describe_objects, kind_of, list_folder, read_object


@dataclass(frozen=True)
class RemotePath:
    """A URL in place of a `pathlib.Path`, whose methods do what those of a path do."""

    url: str
    _known: str | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the URL."""
        return self.url

    def __fspath__(self) -> str:
        """Return the URL, as all that takes files takes it."""
        return self.url

    def __truediv__(self, name: str) -> RemotePath:
        """Return what has a name in this folder."""
        return RemotePath(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.url.rpartition("/")[2]

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
        return RemotePath(self.url.rpartition("/")[0])

    def with_name(self, name: str) -> RemotePath:
        """Return what has another name in the same folder."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> RemotePath:
        """Return what has the same name with another suffix."""
        return self.with_name(self.stem + suffix)

    @cached_property
    def _kind(self) -> str:
        return kind_of(self.url) if self._known is None else self._known

    def exists(self) -> bool:
        """Return whether there is anything, as it was when it was first asked."""
        return bool(self._kind)

    def is_file(self) -> bool:
        """Return whether it is an object, as it was when it was first asked."""
        return self._kind == "file"

    def is_dir(self) -> bool:
        """Return whether it is a folder, as it was when it was first asked."""
        return self._kind == "directory"

    def open(self, mode: Literal["rb"]) -> RawIOBase:
        """Open the object; every read is one request."""
        return RangeReader(stat_all([self])[0])

    def read_bytes(self) -> bytes:
        """Return all of the object."""
        return read_object(self.url)

    def read_text(self) -> str:
        """Return all of the object as text."""
        return self.read_bytes().decode()

    def iterdir(self) -> Iterator[RemotePath]:
        """Iterate over the objects of a folder, but not over its folders."""
        return (RemotePath(url, "file") for url in list_folder(self.url))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Iterate over those objects of a folder whose names match."""
        return (path for path in self.iterdir() if fnmatchcase(path.name, pattern))


AnyPath = Path | RemotePath


def as_path(spec: str | PathLike[str]) -> AnyPath:
    """Return a path, or a remote one of a URL."""
    text = fspath(spec)
    return RemotePath(canonical(text).rstrip("/")) if is_url(text) else Path(text)


def stat_all(paths: Sequence[AnyPath]) -> list[SourceFile]:
    """Look at files: at many of a store by a list of their folder, where it makes one."""
    remote = [path for path in paths if isinstance(path, RemotePath)]
    folders = dict.fromkeys(path.parent.url for path in remote) if len(remote) > 1 else ()
    listing = {url: info for folder in folders for url, info in list_folder(folder).items()}
    objects = iter(describe_objects([path.url for path in remote], listing))
    return [stat_file(path) if isinstance(path, Path) else next(objects) for path in paths]


def bytes_at(path: AnyPath) -> int | None:
    """Return the bytes of a file, or of all in a folder; None if a store does not say it."""
    if isinstance(path, Path):
        files = path.rglob("*") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if file.is_file())
    if path.is_file():
        return stat_all([path])[0].size
    sizes: list[Any] = [info.get("size") for info in list_folder(path.url).values()]
    return sum(sizes) if sizes and None not in sizes else None
