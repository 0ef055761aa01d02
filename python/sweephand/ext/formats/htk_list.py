"""Lists of HTK's feature files (SCP): which frames of which file each sequence is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from os import fsdecode
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError
from sweephand.extend import (
    Files,
    PathLike,
    SourceFile,
    _core,
    empty_corpus,
    find_files,
    is_url,
)

_HERE = ".../"  # as CNTK writes the folder of the list


@dataclass(frozen=True)
class HtkList:
    """Sequences, and the frames that they are."""

    keys: list[str]  # the id of each sequence
    paths: list[str]  # feature files, each once
    # the file of each sequence, its first frame there, and how many; -1 for all
    numbers: NDArray[np.int64]
    firsts: NDArray[np.int64]
    lengths: NDArray[np.int64]


def read_lists(scp: Files, root: PathLike | None) -> HtkList:
    """Read lists in order; a feature file among them is a single sequence.

    Relative paths are those in the folder `root`, by default in that of each list.
    """
    files = find_files(scp, as_given=True).files
    lists = [_alone(file) if is_features(file) else _read_list(file, root) for file in files]
    if not any(one.keys for one in lists):
        raise empty_corpus([file.path for file in files])
    paths: dict[str, int] = {}
    numbers = []
    for one in lists:
        own = [paths.setdefault(path, len(paths)) for path in one.paths]
        numbers.append(np.array(own, np.int64)[one.numbers])
    return HtkList(
        [key for one in lists for key in one.keys],
        list(paths),
        np.concatenate(numbers),
        np.concatenate([one.firsts for one in lists]),
        np.concatenate([one.lengths for one in lists]),
    )


def is_features(file: SourceFile) -> bool:
    """Return True if a file holds features, whose header always has zeros, and is no list.

    An empty one is damaged, unless it has the name of a list.
    """
    if not file.size:
        return not file.name.lower().endswith(".scp")
    return b"\0" in file.read(0, min(file.size, _core.formats.HTK_HEADER_BYTES)).tobytes()


def _alone(file: SourceFile) -> HtkList:
    stem, dot, _ = file.name.rpartition(".")
    key = stem if dot and stem else file.name
    zero = np.zeros(1, np.int64)
    return HtkList([key], [file.spec], zero, zero, zero - 1)


def _read_list(file: SourceFile, root: PathLike | None) -> HtkList:
    try:
        keys, paths, *ranges = _core.formats.parse_scp(file.read(0, file.size))
    except DataError as error:
        raise error.within(file=file.path) from None
    folder, slash, _ = file.spec.rpartition("/")
    folder = folder or slash or "."
    beside = folder if root is None else os.fspath(root)
    found = [_join(fsdecode(path), folder, beside) for path in paths]
    return HtkList([fsdecode(key) for key in keys], found, *ranges)


def _join(path: str, folder: str, root: str) -> str:
    if path.startswith(_HERE):
        path, root = path.removeprefix(_HERE), folder
    if is_url(path) or Path(path).is_absolute():
        return path
    if is_url(root):
        return f"{root.rstrip('/')}/{path}"
    return os.path.normpath(os.path.join(root, path))  # noqa: PTH118 - text stays text
