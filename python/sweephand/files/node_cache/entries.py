"""The entries of a cache: a file for each range of an object, with a checksum.

An entry is a file of records (`run/records.py`) with one block: its label is the key, its
payload the content.

An entry is written under a name of its own and renamed, so that under its key it is whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.files.loading import RequestedFile
from sweephand.run.records import RecordKind, block_head

Key = bytes
"""The digest of an object and a range of it, of 16 bytes."""

ENTRY = RecordKind(b"SWEEPENT", 1, "entry of a node cache", "delete the folder")
HEAD_BYTES = len(ENTRY.head) + len(block_head(bytes(16), b""))

_ENTRY = re.compile(r"[0-9a-f]{32}")
_UNFINISHED = re.compile(r"unfinished-(\d+)-\d+")


class Entries:
    """The entries in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._number = 0

    def read(self, key: Key, size: int, padding: int) -> NDArray[np.uint8] | None:
        """Return the content of an entry and `padding` zeros; None if there is none."""
        try:
            fd = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        head = bytearray(HEAD_BYTES)
        content = _core.read.empty_bytes(size + padding)
        content[size:] = 0
        try:
            is_whole = os.fstat(fd).st_size == HEAD_BYTES + size
            is_whole = is_whole and _read_all(fd, head, content[:size].data)
        finally:
            os.close(fd)
        expected = head_of(key, content[:size])
        if not is_whole or head != expected:
            raise ValueError(f"the entry {key.hex()} is damaged")
        return content

    def holds(self, key: Key) -> bool:
        """Return True if there is an entry."""
        return os.path.lexists(self._path(key))

    def write(self, key: Key, content: NDArray[np.uint8], writer: int) -> Unfinished:
        """Write an entry; until it is whole its name holds the number of its writer."""
        self._number += 1
        unfinished = Unfinished(
            f"{self.folder}/unfinished-{writer}-{self._number}", self._path(key)
        )
        try:
            with open(unfinished.path, "xb", buffering=0) as file:  # noqa: PTH123 - quicker
                for part in (head_of(key, content), content.data):
                    _write_all(file.fileno(), memoryview(part))
        except BaseException:
            unfinished.remove()
            raise
        return unfinished

    def remove(self, key: Key) -> None:
        """Remove an entry, if it is there."""
        _remove(self._path(key))

    def keys(self) -> set[Key]:
        """Return the keys of all entries that are there."""
        return {bytes.fromhex(name) for name in self._names() if _ENTRY.fullmatch(name)}

    def unfinished(self) -> Iterator[tuple[int, str]]:
        """Iterate over the writers of unfinished entries, and their paths."""
        for name in self._names():
            if match := _UNFINISHED.fullmatch(name):
                yield int(match[1]), f"{self.folder}/{name}"

    def _names(self) -> list[str]:
        with os.scandir(self.folder) as found:
            return [entry.name for entry in found]

    def _path(self, key: Key) -> str:
        return f"{self.folder}/{key.hex()}"


class Unfinished:
    """An entry under a name of its own; it is removed unless it is finished."""

    def __init__(self, path: str, final_path: str) -> None:
        self.path, self._final_path = path, final_path

    def finish(self) -> None:
        """Give it the name of its key."""
        os.rename(self.path, self._final_path)  # noqa: PTH104

    def remove(self) -> None:
        """Remove it, if it is still there."""
        _remove(self.path)


def key_of(file: RequestedFile, offset: int, size: int) -> Key:
    """Return the key of a range of an object."""
    identity = repr((file.path, file.size, file.tag, offset, size))
    return blake2b(identity.encode(), digest_size=16).digest()


def head_of(key: Key, content: NDArray[np.uint8]) -> bytes:
    """Return the bytes of an entry before its content, with the checksum of it."""
    return ENTRY.head + block_head(key, content.data)


def _read_all(fd: int, head: bytearray, content: memoryview) -> bool:
    """Fill both, and return True if there was enough."""
    done = os.preadv(fd, [head, content], 0) - HEAD_BYTES
    while 0 <= done < len(content):
        count = os.preadv(fd, [content[done:]], HEAD_BYTES + done)
        if not count:
            return False
        done += count
    return done == len(content)


def _write_all(fd: int, content: memoryview) -> None:
    while content:
        content = content[os.write(fd, content) :]


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108
