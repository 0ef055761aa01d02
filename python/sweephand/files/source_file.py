"""The files of a corpus: which they are, and what tells that they are still the same."""

from __future__ import annotations

import errno
import glob
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.errors import DataError
from sweephand.files.urls import shown

PathLike = str | os.PathLike[str]
Files = PathLike | Sequence[PathLike]

REMOTE_LOAD_THREADS = 16
"""Requests that are under way at a time."""

_LEFTOVER_SUFFIXES = (".tmp", ".crc", ".sweephand-index")
_LEFTOVER_NAMES = ("_SUCCESS",)


@dataclass(frozen=True)
class SourceFile(ABC):
    """A file that is read by ranges.

    Attributes
    ----------
    path : str
        Path or URL.
    name : str
        What it is called in ids: its base name, or where two files share it the path below the
        folder that all have in common.
    size : int
        In bytes.
    tag : str
        Changes with the content: the time of modification, or the ETag of an object.
    """

    path: str
    name: str
    size: int
    tag: str

    @abstractmethod
    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill an array with the bytes from `offset` on.

        Raises
        ------
        StaleError
            If the file is not the one that was listed.
        DataError
            If it ends before.
        OSError
            If the system or the store fails.
        """

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        """Return `size` bytes from `offset` on; see `read_into`."""
        return self.fetch(offset, size)

    def fetch(self, offset: int, size: int, padding: int = 0) -> NDArray[np.uint8]:
        """Return `size` bytes from `offset` on, and `padding` more of any value.

        Where it comes from a store the array is the answer itself, and read-only; whether the
        object is still the same is another request: `check_unchanged`.
        """
        self._check_end(offset, size)
        out = _core.read.empty_bytes(size + padding)
        self.read_into(offset, out[:size])
        return out

    def _check_end(self, offset: int, size: int) -> None:
        if size > self.size - offset:
            raise DataError(
                f"the file ends at byte {self.size}, before {size} bytes could be read",
                self.path,
                offset,
            )

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise StaleError if the file is not the one that was listed."""

    @property
    def spec(self) -> str:
        """What finds the file again; of a URL it may hold secrets, which `path` does not."""
        return self.path

    @property
    def identity(self) -> object:
        """What only the same file has, however it is called."""
        return self.spec


@dataclass(frozen=True)
class LocalFile(SourceFile):
    """A regular file of this machine; its tag is the time of modification in ns."""

    device: int
    inode: int

    @property
    def core_tag(self) -> _core.read.FileTag:
        """What the core compares whenever it reads."""
        return _core.read.FileTag(self.size, int(self.tag), self.inode)

    @property
    def identity(self) -> object:
        """What only the same file has, however it is called."""
        return self.device, self.inode

    def listed(self) -> _core.read.ListedFile:
        """Return the file as the core opens it."""
        return _core.read.ListedFile(self.path, self.core_tag)

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill an array with the bytes from `offset` on; see `SourceFile`."""
        _core.read.File(self.path, self.core_tag).read_into(offset, out)

    def check_unchanged(self) -> None:
        """Raise StaleError if the file is not the one that was listed."""
        _core.read.File(self.path, self.core_tag)


@dataclass(frozen=True)
class FileList:
    """The files of a corpus by name, and the leftovers that a glob met and passed over."""

    files: list[SourceFile]
    leftovers: list[str]


def find_files(files: Files, *, as_given: bool = False) -> FileList:
    """Find the files of a corpus.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs (what exists is taken literally), or fsspec URLs, which are globs if they
        hold ``*`` or ``[``.
    as_given : bool
        Keep the order they were given in; what a glob finds is in the order of the paths.

    Returns
    -------
    FileList
        Sorted by the bytes of their names, unless `as_given`.

    Raises
    ------
    FileNotFoundError
        If there is none of a name or a pattern.
    DataError
        If it is a folder, a pipe or a device.
    ValueError
        If a file is there twice, or none is given.
    """
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    if not given:
        raise ValueError("give at least one file")
    specs = [os.fspath(one) for one in given]
    urls = [spec for spec in specs if is_url(spec)]
    remote: dict[str, FileList] = {}
    if urls:
        from sweephand.files.remote import find_objects

        remote = dict(zip(urls, find_objects(urls), strict=True))
    found: list[SourceFile] = []
    leftovers: list[str] = []
    for spec in specs:
        listed = remote.get(spec) or _find_local(spec)
        found += listed.files
        leftovers += listed.leftovers
    _refuse_twice(found)
    named = _name(found)
    if not as_given:
        named.sort(key=lambda file: os.fsencode(file.name))
    return FileList(named, leftovers)


def join_pieces(
    files: Sequence[LocalFile], pieces: NDArray[np.uint64], *, mapped: bool = False
) -> _core.read.Extents:
    """Return pieces of files as one run of bytes that the core reads, or maps into memory.

    Parameters
    ----------
    pieces : ndarray of uint64, shape (pieces, 3)
        File number, byte where it begins, and size in bytes.
    """
    numbers, offsets, sizes = np.ascontiguousarray(pieces.T)
    return _core.read.Extents(
        [file.listed() for file in files], numbers, offsets, sizes, mapped
    )


def are_local(files: Sequence[SourceFile]) -> TypeGuard[Sequence[LocalFile]]:
    """Return whether all files lie on this machine."""
    return all(isinstance(file, LocalFile) for file in files)


def is_url(spec: str) -> bool:
    """Return whether a path is an fsspec URL; what exists here is taken literally."""
    # Not Path.exists, which raises where a URL is longer than a name may be.
    return "://" in spec and not os.path.exists(spec)  # noqa: PTH110


def is_leftover(name: str, *, hidden: bool = False) -> bool:
    """Return whether a file that was met in a folder holds no data.

    Those are what writers leave behind, indexes, and what begins with a dot, which no other
    reader of a folder takes either; unless hidden files are asked for.
    """
    is_hidden = name.startswith(".") and not hidden
    return is_hidden or name.endswith(_LEFTOVER_SUFFIXES) or name in _LEFTOVER_NAMES


def _find_local(spec: str) -> FileList:
    if not glob.has_magic(spec) or Path(spec).exists():
        return FileList([stat_file(spec)], [])
    # Path.glob has no absolute patterns; what it finds is not looked at twice.
    paths = sorted(set(glob.glob(spec, recursive=True)))  # noqa: PTH207
    found = [(path, os.stat(path)) for path in paths]  # noqa: PTH116
    found = [(path, status) for path, status in found if not stat.S_ISDIR(status.st_mode)]
    # Hidden files are met only where the pattern asks for them.
    is_left = [is_leftover(path.rpartition(os.sep)[2], hidden=True) for path, _ in found]
    leftovers = [path for (path, _), left in zip(found, is_left, strict=True) if left]
    chosen = [one for one, left in zip(found, is_left, strict=True) if not left]
    if not chosen:
        raise no_match(spec, leftovers)
    return FileList([_describe_local(*one) for one in chosen], leftovers)


def no_match(spec: str, leftovers: Sequence[str]) -> FileNotFoundError:
    """Return the error for a pattern that matches no data."""
    reason = "no file matches the pattern"
    if leftovers:
        reason += f" but leftovers of a writer: {', '.join(leftovers)}"
    return FileNotFoundError(errno.ENOENT, reason, shown(spec) if "://" in spec else spec)


def stat_file(path: PathLike) -> LocalFile:
    """Look at a local file.

    Raises
    ------
    FileNotFoundError
        If it is absent.
    DataError
        If it is no regular file.
    """
    return _describe_local(os.fspath(path), os.stat(path))  # noqa: PTH116 - thousands of them


def open_regular(path: PathLike, *, follow_links: bool = True) -> BufferedReader:
    """Open a local file to be read, at once: a pipe waits for nobody, a device is not read.

    Raises
    ------
    FileNotFoundError
        If it is absent.
    DataError
        If it is no regular file, or a link that is not to be followed.
    """
    name = os.fspath(path)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(name, flags if follow_links else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise DataError("this is a link or a socket, not a regular file", name) from error
        raise
    try:
        _refuse_irregular(name, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _refuse_irregular(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise DataError("this is a folder; name the files in it, such as '*'", path)
    if not stat.S_ISREG(status.st_mode):
        raise DataError("this is not a regular file", path)


def _describe_local(path: str, status: os.stat_result) -> LocalFile:
    _refuse_irregular(path, status)
    return LocalFile(
        path=path,
        name=path.rpartition(os.sep)[2],
        size=status.st_size,
        tag=str(status.st_mtime_ns),
        device=status.st_dev,
        inode=status.st_ino,
    )


def _refuse_twice(files: Sequence[SourceFile]) -> None:
    seen: dict[object, str] = {}
    for file in files:
        identity = file.identity
        if identity in seen:
            raise ValueError(
                f"the file {file.path!r} is given twice, also as {seen[identity]!r}; its "
                "sequences would have the same ids"
            )
        seen[identity] = file.path


def _name(files: list[SourceFile]) -> list[SourceFile]:
    if len({file.name for file in files}) < len(files):
        common = os.path.commonpath([Path(file.path).parent for file in files])
        files = [replace(file, name=os.path.relpath(file.path, common)) for file in files]
    return files
