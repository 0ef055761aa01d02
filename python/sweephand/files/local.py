"""Local regular files, opened without blocking."""

from __future__ import annotations

import errno
import glob
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BufferedReader
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.errors import DataError
from sweephand.files import MOST_REQUESTS
from sweephand.files.source_file import PathLike, SourceFile, is_leftover, no_match

# The most requests that are under way at a time, if together they ask for as many MiB at most.
_MOST_SMALL_REQUESTS = 48
_TICKS = 50_000_000  # in ns
_MOST_NAMES = 10_000  # of a folder, that a misspelt one is compared with


@dataclass(frozen=True)
class LocalFile(SourceFile):
    """A regular file of this machine; its tag is the time of modification in ns."""

    device: int
    inode: int

    @property
    def is_here(self) -> bool:
        """True, as its bytes are local."""
        return True

    @property
    def core_tag(self) -> _core.read.FileTag:
        """Tag that the core compares whenever it reads."""
        return _core.read.FileTag(self.size, int(self.tag), self.inode)

    @property
    def identity(self) -> tuple[int, int]:
        """Identity of the file under any name."""
        return self.device, self.inode

    @property
    def is_settled(self) -> bool:
        """True if it was not written within the last ticks of the system's clock."""
        return time.time_ns() - int(self.tag) > _TICKS

    def listed(self) -> _core.read.ListedFile:
        """Return the file as the core opens it."""
        return _core.read.ListedFile(self.path, self.core_tag)

    def opened(self) -> _core.read.File:
        """Return the file as the core reads it."""
        return _core.read.File(self.path, self.core_tag)

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill an array with the bytes from `offset` on; see `SourceFile`."""
        self.opened().read_into(offset, out)

    def check_unchanged(self) -> None:
        """Raise StaleError if the file is not the listed file."""
        self.opened()


def find_local(spec: str) -> list[SourceFile]:
    """Return the file at a path, or those that a pattern matches."""
    if not glob.has_magic(spec) or Path(spec).exists():
        return [stat_file(spec)]
    # Path.glob has no absolute patterns; its results are not looked up twice.
    paths = sorted(set(glob.glob(spec, recursive=True)))  # noqa: PTH207
    found: list[SourceFile] = []
    leftovers: list[str] = []
    for path, mode, *state in _look_at(paths):
        if stat.S_ISDIR(mode):
            continue
        # Hidden files are met only where the pattern asks for them.
        if is_leftover(path.rpartition(os.sep)[2], hidden=True):
            leftovers.append(path)
        else:
            found.append(_describe(path, mode, *state))
    if not found:
        raise no_match(spec, leftovers)
    return found


def stat_file(path: PathLike) -> LocalFile:
    """Look at a local file; it must be there (FileNotFoundError), and regular (DataError)."""
    return _describe(*next(iter(_look_at([os.fspath(path)]))))


def look_again(files: Sequence[LocalFile]) -> list[LocalFile]:
    """Return the files that have their paths now: the same ones unless they have changed."""
    now = _look_at([file.path for file in files])
    return [
        file
        if state == [file.size, int(file.tag), file.device, file.inode]
        else replace(_describe(path, mode, *state), name=file.name)
        for file, (path, mode, *state) in zip(files, now, strict=True)
    ]


def _look_at(paths: Sequence[str]) -> Iterator[tuple[str, int, int, int, int, int]]:
    """Return paths with mode, size, time of modification, device and inode; 0 for failures."""
    ended = os.fsencode("".join(f"{path}\0" for path in paths))
    if ended.count(b"\0") != len(paths):
        raise ValueError("a path cannot hold a zero byte")
    columns = _core.read.look_at_all(np.frombuffer(ended, np.uint8))
    return zip(paths, *(column.tolist() for column in columns), strict=True)


def not_found(path: PathLike) -> FileNotFoundError:
    """Return the error for an absent path: where it was looked for, and similar names."""
    from difflib import get_close_matches  # only here, as it takes its time to import

    folder = Path(path).absolute().parent
    if Path(path).is_symlink():
        reason = f"this is a link to {os.readlink(path)!r}, where nothing is"  # noqa: PTH115
    elif not folder.is_dir():
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
    """Open a local file for reading without waiting.

    DataError if it is a folder, pipe or device, or a link that is not to be followed.
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
        refuse_irregular(name, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def refuse_irregular(path: str, mode: int) -> None:
    """Raise DataError if a mode is not that of a regular file."""
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise DataError("this is a folder; name the files in it, such as '*'", path)
    raise DataError("this is not a regular file", path)


def _describe(
    path: str, mode: int, size: int, mtime_ns: int, device: int, inode: int
) -> LocalFile:
    if not mode:
        with suppress(FileNotFoundError):
            Path(path).stat()  # an error of another kind
        raise not_found(path)
    refuse_irregular(path, mode)
    return LocalFile(path, path.rpartition(os.sep)[2], size, str(mtime_ns), device, inode)


@dataclass(frozen=True)
class Access:
    """The reading of files: in place on this machine, or by requests to a store."""

    local: list[LocalFile] | None  # the files, if all lie on this machine as they are read
    asks: bool  # whether a store is asked for some of them

    @property
    def is_local(self) -> bool:
        """True if all files are local."""
        return self.local is not None

    def threads(self, here: int = 1, chunk_bytes: int | None = None) -> int:
        """Return the number of threads that read: `here` for local files, else one per request.

        Requests may be more where the bytes of a chunk are known to be few: two chunks of each
        of 48 lanes are due at once when a run begins, and others wait for the latency of these.
        """
        if not self.asks:
            return here
        if chunk_bytes is None:
            return MOST_REQUESTS
        most = (_MOST_SMALL_REQUESTS << 20) // max(1, chunk_bytes)
        return min(_MOST_SMALL_REQUESTS, max(MOST_REQUESTS, most))


def access_to(files: Sequence[SourceFile]) -> Access:
    """Return the access to files; a single remote one decides for all."""
    local = [file for file in files if isinstance(file, LocalFile)]
    asks = not all(file.is_here for file in files)
    return Access(local if len(local) == len(files) else None, asks)


def join_pieces(files: Sequence[LocalFile], pieces: NDArray[np.uint64]) -> _core.read.Extents:
    """Return pieces of files as one run of bytes, which the core maps into memory.

    `pieces` has a row of file number, byte where it begins, and size in bytes for each.
    """
    numbers, offsets, sizes = np.ascontiguousarray(pieces.T)
    return _core.read.Extents([file.listed() for file in files], numbers, offsets, sizes)
