"""The interface of local and remote files, and the detection of changes."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.errors import DataError
from sweephand.files.urls import shown

PathLike = str | os.PathLike[str]
Files = PathLike | Sequence[PathLike]

FIRST_BYTES = 1 << 16
"""What is read of a file to recognise it; a block of zstd mostly fits."""

_MOST_KNOWN = 64
_LEFTOVER_SUFFIXES = (".tmp", ".crc", ".sweephand-index")
_LEFTOVER_NAMES = ("_SUCCESS",)
_OF_DESKTOPS = ("thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx")


@dataclass(frozen=True)
class SourceFile(ABC):
    """A file that is read by ranges."""

    path: str  # or URL
    # what it is called in ids: its base name, or where two files share it the path below the
    # folder that all have in common
    name: str
    size: int  # in bytes
    tag: str  # changes with the content: the time of modification, or the ETag of an object

    @abstractmethod
    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill an array with the bytes from `offset` on.

        StaleError if the file is not the one that was listed, DataError if it ends before,
        OSError if the system or the store fails.
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
        out = room_for(size + padding, self.path, offset)
        self.read_into(offset, out[:size])
        return out

    def head(self, size: int) -> bytes:
        """Return the first bytes, as many as there are.

        Whoever looks at a file asks for `FIRST_BYTES`, and those who open it need not read.
        """
        size = min(size, self.size)
        known = _first_bytes.get(self, b"") if self.is_settled else b""
        if size <= len(known):
            return known[:size]
        found = self.fetch(0, size).tobytes()
        if size == min(self.size, FIRST_BYTES) and self.is_settled:
            while len(_first_bytes) >= _MOST_KNOWN:
                _first_bytes.pop(next(iter(_first_bytes)), None)
            _first_bytes[self] = found
        return found

    @property
    def is_settled(self) -> bool:
        """True if another content would have another tag."""
        return True

    def _check_end(self, offset: int, size: int) -> None:
        if size > self.size - offset:
            raise DataError(
                f"the file ends at byte {self.size}, before {size} bytes could be read",
                self.path,
                offset,
            )

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise StaleError if the file is not the listed file."""

    @property
    def is_here(self) -> bool:
        """True if its bytes are local, and no store is asked for them."""
        return False

    @property
    def spec(self) -> str:
        """Path or URL that finds the file again; it may hold secrets, which `path` does not."""
        return self.path

    @property
    def identity(self) -> object:
        """Identity of the file under any name."""
        return self.spec


_first_bytes: dict[SourceFile, bytes] = {}  # of those that were looked at last


@dataclass(frozen=True)
class FileList:
    """The files of a corpus, by name."""

    files: list[SourceFile]


def spec_of(path: PathLike) -> str:
    """Return a path or URL as text, with the user's folder for ``~``; existing paths stay."""
    text = os.fspath(path)
    is_home = text.startswith("~") and not os.path.exists(text)  # noqa: PTH110 - as is_url
    return os.path.expanduser(text) if is_home else text  # noqa: PTH111


def empty_corpus(paths: Sequence[str]) -> DataError:
    """Return the error for files, of which none holds a sequence."""
    others = "".join(f", nor in {path}" for path in paths[1:3])
    more = f", ... ({len(paths)} files)" if len(paths) > 3 else ""
    return DataError(f"the corpus is empty: no sequences here{others}{more}", paths[0])


def refuse_pointer(head: bytes, path: str) -> None:
    """Refuse a file that stands for another, which Git LFS has."""
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        raise DataError("this is a pointer of Git LFS and no data: run 'git lfs pull'", path)


def is_leftover(name: str, *, hidden: bool = False) -> bool:
    """Return True for leftovers of writers and desktops, and, unless wanted, hidden files."""
    is_hidden = name.startswith(".") and not hidden
    is_of_writers = name.endswith(_LEFTOVER_SUFFIXES) or name in _LEFTOVER_NAMES
    return is_hidden or is_of_writers or name.lower() in _OF_DESKTOPS


def is_passed_folder(name: str) -> bool:
    """Return True for a nested folder without data: hidden, or made by macOS."""
    return name.startswith(".") or name.lower() in _OF_DESKTOPS


def no_match(spec: str, leftovers: Sequence[str]) -> FileNotFoundError:
    """Return the error for a pattern that matches no data."""
    reason = "no file matches the pattern"
    if leftovers:
        reason += f" but leftovers of a writer: {', '.join(leftovers)}"
    return FileNotFoundError(errno.ENOENT, reason, shown(spec) if "://" in spec else spec)


def room_for(size: int, path: str, offset: int | None = None) -> NDArray[np.uint8]:
    """Return an array of `size` uninitialised bytes; DataError if there is less memory.

    `path` and `offset` are the place of the length.
    """
    reason = f"{size} bytes are to be read at once, more than the memory there is"
    if size > _core.read.physical_memory():
        raise DataError(reason, path, offset)
    try:
        return _core.read.empty_bytes(size)
    except MemoryError:
        raise DataError(reason, path, offset) from None
