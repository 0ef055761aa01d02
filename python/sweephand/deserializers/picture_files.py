"""The pictures of class folders, or of CNTK's map file: their places and classes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import offsets_of
from sweephand.corpus.ids import SequenceIds
from sweephand.deserializers.units.guard import guarded
from sweephand.errors import DataError
from sweephand.files.index_file import Advance, Scan, load_index
from sweephand.files.index_places import Keep
from sweephand.files.local import LocalFile, open_regular
from sweephand.files.paths import folders_at
from sweephand.files.source_file import SourceFile, is_passed_folder

SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".avif", ".jp2"),
)

_SPLITS = (
    *("train", "training", "val", "valid", "validation", "dev", "eval", "evaluation"),
    *("test", "testing", "holdout"),
)


@dataclass(frozen=True)
class PictureFiles:
    """Files and their labels."""

    folder: Path  # the folder of the relative names
    names: NDArray[np.uint8]  # the concatenated bytes of all names
    offsets: NDArray[np.int64]  # where each name begins, and the end
    labels: NDArray[np.int64]
    classes: Sequence[str]  # the names of the labels
    num_bytes: int = 0  # of all files; 0 if unknown
    index: Path | None = None  # where the list is kept

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, number: int) -> str:
        """Return the name of a file."""
        begin, end = self.offsets[number : number + 2].tolist()
        return os.fsdecode(self.names[begin:end].tobytes())

    def read(self, number: int) -> bytes | DataError:
        """Return the bytes of a file, or why it cannot be read."""
        path = self.folder / self.name(number)
        try:
            with guarded(str(path)), open_regular(path) as file:
                return file.read()
        except DataError as error:
            return error
        except OSError as error:
            return DataError(f"the picture cannot be read: {error.strerror}", str(path))

    @cached_property
    def digest(self) -> str:
        """A digest of all names and labels."""
        found = blake2b(digest_size=8)
        for array in (self.names, self.offsets, self.labels):
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()


class PictureIds(SequenceIds):
    """Ids that are the names of files."""

    def __init__(self, files: PictureFiles) -> None:
        self._files = files

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the sequences with these numbers in the corpus."""
        return [self._files.name(number) for number in numbers.tolist()]

    def number(self, name: str) -> int:
        """Return the number in the corpus of the sequence with this id."""
        if name not in self._numbers:
            raise KeyError(f"no sequence has the id {name!r}")
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {self._files.name(number): number for number in range(len(self._files))}


def files_in_folders(folder: Path, keep: Keep) -> PictureFiles:
    """Return the pictures below the folders of a folder, each of which is a class."""
    folders = class_folders(folder)
    _refuse_splits(folder, folders)
    units = [_look_at(one) for one in folders]
    if not units:
        raise ValueError(
            f"{str(folder)!r} holds no folders: the pictures of each class lie in their own"
        )
    meaning = {"format": "pictures 1", "suffixes": SUFFIXES}
    index = load_index(units, meaning, _scan, is_current=_is_current, keep=keep)
    counts = np.diff(index.starts["lengths"])
    if not counts.all():
        empty = [unit.name for unit, count in zip(units, counts, strict=True) if not count]
        names = ", ".join(map(repr, empty[:3])) + (", ..." if len(empty) > 3 else "")
        raise ValueError(f"{str(folder)!r}: there is no picture in {names}")
    return PictureFiles(
        folder,
        index.arrays["names"],
        offsets_of(index.arrays["lengths"]),
        np.repeat(np.arange(len(units)), counts),
        [unit.name for unit in units],
        int(index.arrays["sizes"].sum()),
        index.path,
    )


def _refuse_splits(folder: Path, inner: Sequence[Path]) -> None:
    """Refuse a folder of folders as ``train`` and ``val``, each of which holds classes."""
    if not inner or not all(one.name.lower() in _SPLITS for one in inner):
        return
    if split := next((one for one in inner if _holds_classes(one)), None):
        names = ", ".join(one.name for one in inner)
        raise ValueError(
            f"{str(folder)!r} holds the splits {names}, with a folder for each class in them: "
            f"open one of them, such as {str(split)!r}"
        )


def _holds_classes(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        has_pictures = any(one.is_file() and is_picture(one.name) for one in entries)
    return not has_pictures and bool(class_folders(folder))


def class_folders(folder: Path) -> list[Path]:
    """Return the folders of a folder by name, without hidden and desktop folders."""
    return [folder / one.name for one in folders_at(folder)]


def is_picture(name: str) -> bool:
    """Return True if a file is a picture, by its name."""
    return name[:1] != "." and name.lower().endswith(SUFFIXES)


def _look_at(folder: Path) -> LocalFile:
    """Return a class folder as a file whose changes an index detects."""
    seen = folder.stat()
    path = str(folder)
    return LocalFile(path, folder.name, 1, str(seen.st_mtime_ns), seen.st_dev, seen.st_ino)


def _scan(unit: SourceFile, advance: Advance) -> Scan:
    """List the pictures of a class; folders within with their times."""
    found: list[tuple[bytes, int]] = []
    inner: list[tuple[str, int]] = []
    pending = [""]
    while pending:
        below = pending.pop()
        path = Path(unit.path, below)
        if below:
            inner.append((below, path.stat().st_mtime_ns))
        with os.scandir(path) as entries:
            for one in entries:
                name = f"{below}/{one.name}" if below else one.name
                if is_passed_folder(one.name):
                    continue
                if one.is_dir():
                    pending.append(name)
                elif is_picture(one.name):
                    found.append((os.fsencode(f"{unit.name}/{name}"), one.stat().st_size))
    found.sort()
    advance(unit.size)
    return Scan(
        {
            "names": np.frombuffer(b"".join(name for name, _ in found), np.uint8),
            "lengths": np.array([len(name) for name, _ in found], np.uint16),
            "sizes": np.array([size for _, size in found], np.uint64),
        },
        {"folders": sorted(inner)},
    )


def _is_current(unit: SourceFile, facts: Mapping[str, Any]) -> bool:
    """Return False if a folder within a class has changed."""
    return all(_has_time(Path(unit.path, name), changed) for name, changed in facts["folders"])


def _has_time(folder: Path, changed: int) -> bool:
    try:
        return folder.stat().st_mtime_ns == changed
    except OSError:
        return False


def files_in_map(path: Path) -> PictureFiles:
    """Return the pictures that a map file of CNTK lists."""
    names: list[bytes] = []
    labels: list[int] = []
    with open_regular(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            entry = parse_line(line)
            if entry is None:
                raise DataError(
                    f"line {number} is not path<TAB>label, with a label from 0 on: "
                    f"{line[:60].decode(errors='replace')!r}",
                    str(path),
                )
            names.append(entry[0])
            labels.append(entry[1])
    if not names:
        raise DataError("the map file lists no picture", str(path))
    return PictureFiles(
        path.parent,
        np.frombuffer(b"".join(names), np.uint8),
        offsets_of([len(name) for name in names]),
        np.array(labels, np.int64),
        [str(label) for label in range(max(labels) + 1)],
    )


def parse_line(line: bytes) -> tuple[bytes, int] | None:
    """Return path and label of a line of a map file; None if it is no such line."""
    parts = line.strip(b"\r\n").split(b"\t")
    if len(parts) not in (2, 3) or not parts[-1].strip().isdigit() or not parts[-2]:
        return None
    name = parts[-2].replace(b"\\", b"/") if b"/" not in parts[-2] else parts[-2]
    return name.removeprefix(b".../"), int(parts[-1])
