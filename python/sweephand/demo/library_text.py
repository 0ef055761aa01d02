"""The text that every machine with Python has: the functions of its standard library."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweephand.deserializers.npy import NpyDeserializer

_NO_LIBRARY = {"test", "tests", "idlelib", "site-packages", "dist-packages", "__pycache__"}
_DEFINITION = re.compile(rb"[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)")
_CLOSING = b")]}#"


@dataclass(frozen=True)
class LibraryText:
    """Functions, as consecutive bytes.

    Attributes
    ----------
    tokens : ndarray of uint8
        The bytes of all functions.
    offsets : ndarray of int64, shape (functions + 1,)
        Where each function begins, and the end.
    names : list of str
        ``file:line name`` of each function.
    """

    tokens: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    names: list[str]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each function."""
        return np.diff(self.offsets)

    def write(self, folder: Path) -> None:
        """Write the corpus as two ``.npy`` files, as the command line reads them."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "bytes.npy", self.tokens)
        np.save(folder / "bytes_offsets.npy", self.offsets)


def open_text(folder: Path) -> NpyDeserializer:
    """Return the corpus that was written to a folder, to be served."""
    return NpyDeserializer({"bytes": (folder / "bytes.npy", folder / "bytes_offsets.npy")})


def standard_library() -> Path:
    """Return the folder of Python's own sources."""
    return Path(sysconfig.get_path("stdlib"))


def read_text(sources: Path) -> LibraryText:
    """Collect the functions of all Python files below a folder, in a fixed order.

    FileNotFoundError if there are none, as in a Python that was installed without its sources.
    """
    names, texts = [], []
    for file in _python_files(sources):
        for line, name, text in functions(file.read_bytes()):
            names.append(f"{file.relative_to(sources).as_posix()}:{line} {name}")
            texts.append(text)
    if not texts:
        raise FileNotFoundError(f"there are no Python functions below {str(sources)!r}")
    lengths = [len(text) for text in texts]
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    return LibraryText(np.frombuffer(b"".join(texts), np.uint8), offsets, names)


def functions(source: bytes) -> Iterator[tuple[int, str, bytes]]:
    r"""Yield line number, name and text of every function that is in no other function.

    A function ends before the next line that is indented no deeper than its ``def``. That is
    fast, and right but for strings whose lines begin at the margin.

    Examples
    --------
    >>> text = b"x = 1\ndef f():\n    return x\n\nclass A:\n  def g(self): pass\n"
    >>> [(line, name) for line, name, _ in functions(text)]
    [(2, 'f'), (6, 'g')]
    """
    lines = source.splitlines(keepends=True)
    at = 0
    while at < len(lines):
        found = _DEFINITION.match(lines[at])
        if not found:
            at += 1
            continue
        begin, at = at, _end_of_block(lines, at)
        yield begin + 1, found[1].decode(), b"".join(lines[begin:at])


def _end_of_block(lines: list[bytes], begin: int) -> int:
    """Return the line after the last line that is indented deeper than line `begin`."""
    margin = _indentation(lines[begin])
    end = begin + 1
    for number in range(begin + 1, len(lines)):
        line = lines[number]
        if line.isspace():
            continue
        indentation = _indentation(line)
        if indentation <= margin and line[indentation : indentation + 1] not in _CLOSING:
            break
        end = number + 1
    return end


def _indentation(line: bytes) -> int:
    return len(line) - len(line.lstrip())


def _python_files(sources: Path) -> Iterator[Path]:
    for folder, subfolders, files in os.walk(sources):
        subfolders[:] = sorted(set(subfolders) - _NO_LIBRARY)
        yield from (Path(folder, file) for file in sorted(files) if file.endswith(".py"))
