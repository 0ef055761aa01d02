"""Lists of HTK's feature files (SCP): which frames of which file each sequence is.

speaker/one.mfc                  the id is the path without its suffix
one=all.chunk[0,34]              or the key; of an archive the first and the last frame
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from os import fsdecode
from pathlib import Path
from typing import NamedTuple

from sweephand import DataError
from sweephand.ext.formats.htk_header import HTK_HEADER_BYTES
from sweephand.extend import (
    FileList,
    Files,
    PathLike,
    SourceFile,
    empty_corpus,
    find_files,
    guarded,
    is_url,
    printable,
)

_HERE = ".../"  # as CNTK writes the folder of the list
_RANGE = re.compile(rb"(.+)\[(\d{1,10}),(\d{1,10})\]", re.DOTALL)


class Entry(NamedTuple):
    """A sequence, and the frames of a file that it is."""

    key: str
    path: str
    first: int = 0
    length: int = -1  # all that the file has


def read_lists(scp: Files, root: PathLike | None) -> tuple[list[Entry], FileList]:
    """Return the sequences of lists in their order, and the files of frames, each once.

    A feature file among the lists is a single sequence. Relative paths are those in the folder
    `root`, by default in that of each list.
    """
    given = find_files(scp, as_given=True).files
    entries: list[Entry] = []
    lists: list[str] = []
    for file in given:
        if is_features(file):
            entries.append(Entry(without_suffix(file.name), file.spec))
        else:
            entries += _read_list(file, root)
            lists.append(file.path)
    if not entries:
        raise empty_corpus([file.path for file in given])
    paths = list(dict.fromkeys(one.path for one in entries))
    with guarded(", ".join(lists)):
        return entries, find_files(paths, as_given=True)


def is_features(file: SourceFile) -> bool:
    """Return True if a file holds features, whose header always has zeros, and is no list.

    An empty one is damaged, unless it has the name of a list.
    """
    if not file.size:
        return not file.name.lower().endswith(".scp")
    return b"\0" in file.read(0, min(file.size, HTK_HEADER_BYTES)).tobytes()


def without_suffix(path: str) -> str:
    """Return a path without the suffix of its last part."""
    stem, dot, suffix = path.rpartition(".")
    return stem if dot and "/" not in suffix and stem.rpartition("/")[2] else path


def quoted(content: bytes) -> str:
    """Return the beginning of a line for an error."""
    return f'"{printable(fsdecode(content[:80]))}"'


def _read_list(file: SourceFile, root: PathLike | None) -> Iterator[Entry]:
    folder, slash, _ = file.spec.rpartition("/")
    folder = folder or slash or "."
    beside = folder if root is None else os.fspath(root)
    joined = cache(lambda path: _join(fsdecode(path), folder, beside))
    offset = 0
    for number, content in enumerate(BytesIO(file.fetch(0, file.size).data), 1):
        if line := content.strip():
            key, path, first, length = _parts(line)
            if not (key and path) or b"\0" in path:
                reason = (
                    f"the line {quoted(line)} names no frames: a line is PATH, or "
                    "KEY=PATH[FIRST,LAST]"
                )
                raise DataError(reason, file.path, offset, line=number)
            yield Entry(without_suffix(fsdecode(key)), joined(path), first, length)
        offset += len(content)


def _parts(line: bytes) -> tuple[bytes, bytes, int, int]:
    """Return key, path, first frame and their number; no path if the range is none."""
    key, equals, path = map(bytes.strip, line.partition(b"="))
    if not equals:
        return line, line, 0, -1
    if not path.endswith(b"]"):
        return key, path, 0, -1
    found = _RANGE.fullmatch(path)
    first, last = (int(found[2]), int(found[3])) if found else (1, 0)
    return key, found[1] if found and first <= last < 2**32 else b"", first, last - first + 1


def _join(path: str, folder: str, root: str) -> str:
    if path.startswith(_HERE):
        path, root = path.removeprefix(_HERE), folder
    if is_url(path) or Path(path).is_absolute():
        return path
    if is_url(root):
        return f"{root.rstrip('/')}/{path}"
    return os.path.normpath(os.path.join(root, path))  # noqa: PTH118 - text stays text
