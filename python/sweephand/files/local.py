"""Files of this machine: regular ones, opened without a wait."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BufferedReader
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.errors import DataError
from sweephand.files.source_file import FileList, PathLike, SourceFile, is_leftover, no_match

_MOST_NAMES = 10_000  # of a folder, that a misspelt one is compared with


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
    def identity(self) -> tuple[int, int]:
        """What only the same file has, however it is called."""
        return self.device, self.inode

    def now(self) -> LocalFile:
        """Return the file that has its path now: itself unless it was changed or replaced."""
        found = stat_file(self.path, self)
        return found if found is self else replace(found, name=self.name)

    def listed(self) -> _core.read.ListedFile:
        """Return the file as the core opens it."""
        return _core.read.ListedFile(self.path, self.core_tag)

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill an array with the bytes from `offset` on; see `SourceFile`."""
        _core.read.File(self.path, self.core_tag).read_into(offset, out)

    def check_unchanged(self) -> None:
        """Raise StaleError if the file is not the one that was listed."""
        _core.read.File(self.path, self.core_tag)


def find_local(spec: str) -> FileList:
    """Return the file at a path, or those that a pattern matches."""
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


def stat_file(path: PathLike, known: LocalFile | None = None) -> LocalFile:
    """Look at a local file; what is known of it is returned as it is if nothing has changed.

    Raises
    ------
    FileNotFoundError
        If it is absent.
    DataError
        If it is no regular file.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - thousands of them
    except FileNotFoundError:
        raise not_found(path) from None
    if known is not None and _tells(status) == (known.size, int(known.tag), *known.identity):
        return known
    return _describe_local(os.fspath(path), status)


def _tells(status: os.stat_result) -> tuple[int, ...]:
    """Return what changes with a file: size, time of modification, device and inode."""
    return status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino


def not_found(path: PathLike) -> FileNotFoundError:
    """Return the error for a path where nothing is: where it was looked for, what is near."""
    from difflib import get_close_matches  # only here, as it takes its time to import

    folder = Path(path).absolute().parent
    if not folder.is_dir():
        reason = f"there is no folder {str(folder)!r}"
    else:
        reason = f"there is no file or folder of this name in {str(folder)!r}"
        names: list[str] = []
        with suppress(OSError), os.scandir(folder) as entries:
            names += [entry.name for entry in islice(entries, _MOST_NAMES)]
        if near := get_close_matches(Path(path).name, names, 3):
            reason += f"; similar names there: {', '.join(map(repr, near))}"
    return FileNotFoundError(errno.ENOENT, reason, os.fspath(path))


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
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise DataError("this is a folder; name the files in it, such as '*'", path)
    raise DataError("this is not a regular file", path)


def _describe_local(path: str, status: os.stat_result) -> LocalFile:
    _refuse_irregular(path, status)
    return LocalFile(
        path,
        path.rpartition(os.sep)[2],
        status.st_size,
        str(status.st_mtime_ns),
        status.st_dev,
        status.st_ino,
    )


def join_pieces(files: Sequence[LocalFile], pieces: NDArray[np.uint64]) -> _core.read.Extents:
    """Return pieces of files as one run of bytes, which the core maps into memory.

    Parameters
    ----------
    pieces : ndarray of uint64, shape (pieces, 3)
        File number, byte where it begins, and size in bytes.
    """
    numbers, offsets, sizes = np.ascontiguousarray(pieces.T)
    return _core.read.Extents([file.listed() for file in files], numbers, offsets, sizes)
