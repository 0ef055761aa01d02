"""Folders of pictures, one for each class, and the map files that CNTK reads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.calls import side_by_side
from sweephand.corpus.chunks import make_chunk, sequences_per_chunk
from sweephand.corpus.columns import ColumnData, column_of_bytes, describe_stream, offsets_of
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ids import SequenceIds, ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sizes import Sizing
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import StreamsLike, choose_streams, stream_per_name
from sweephand.deserializers.deserializer import brief
from sweephand.deserializers.open_path import Look, SelfDescribed
from sweephand.deserializers.units.unit_scan import guarded
from sweephand.errors import DataError
from sweephand.files.index_file import Advance, Keep, Scan, check_keep, load_index
from sweephand.files.local import LocalFile, not_found, open_regular
from sweephand.files.paths import folders_at
from sweephand.files.source_file import (
    PathLike,
    SourceFile,
    is_leftover,
    is_passed_folder,
    spec_of,
)
from sweephand.files.urls import is_url

_FIELDS = ("image", "label")
_MAP_FILES = (".txt", ".map", ".tsv")
_READ_AT_ONCE = 8  # files, by threads: a disk has more to do then
_GUESS = 100_000  # bytes of a picture of unknown size
_LOOKED_AT = 16  # files of a folder that decide its content


SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".avif", ".jp2"),
)
_SPLITS = (
    *("train", "training", "val", "valid", "validation", "dev", "eval", "evaluation"),
    *("test", "testing", "holdout"),
)


class ImageFolder(SelfDescribed):
    """Serve pictures from a folder for each class, or from a list in a map file.

    A picture is a sequence of one sample in the streams ``image``, its bytes as stored, and
    ``label``, an int64. They are decoded to arrays by `sweephand.decode`, or by the stream:
    ``image=StreamDef(decode="image", shape=(3, 224, 224))``. A picture is read when it is
    delivered.

    Parameters
    ----------
    path : path
        A folder with a folder for each class, whose pictures may be in subfolders; hidden files
        and those of other suffixes are left out. Or a text file of lines
        ``path<TAB>label`` or ``key<TAB>path<TAB>label``, as CNTK's ImageDeserializer reads it;
        paths are relative to it, ``...`` at their beginning being its folder.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        Of the fields "image" and "label"; by default both.
    index : {"auto", "cache", None}
        Place of the list of files: ``.sweephand`` in the folder, or else the cache folder. A
        class whose folder has not changed is not listed again.

    Attributes
    ----------
    classes : list of str
        The names of the labels: the folders, sorted.
    class_to_idx : dict
        The label of each class.

    Examples
    --------
    >>> import pathlib, tempfile, sweephand as sh
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
    ...     (folder / name).parent.mkdir(exist_ok=True)
    ...     _ = (folder / name).write_bytes(b"the bytes of a picture")
    >>> corpus = sh.ImageFolder(folder)
    >>> corpus.classes
    ['cat', 'dog']
    >>> minibatch = sh.MinibatchSource(corpus, randomize=False).next_minibatch(3)
    >>> minibatch["label"].values, minibatch.ids
    (array([0, 0, 1]), ['cat/1.png', 'cat/2.png', 'dog/1.png'])
    """

    def __init__(
        self, path: PathLike, streams: StreamsLike | None = None, *, index: Keep = "auto"
    ) -> None:
        keep = check_keep(index)
        spec = spec_of(path)
        if is_url(spec):
            raise ValueError(f"{spec!r}: pictures in a store are read from shards, not folders")
        self._path = Path(spec)
        if not self._path.exists():
            raise not_found(self._path)
        self.definitions = choose_streams(streams, partial(stream_per_name, _FIELDS))
        for name, field in self._fields.items():
            if field not in _FIELDS:
                wrong = f"stream {name!r}: there is no field {field!r}"
                raise ValueError(f"{wrong}, there are: image, label")
        is_folder = self._path.is_dir()
        self._files = (
            files_in_folders(self._path, keep) if is_folder else files_in_map(self._path)
        )
        self._ids: SequenceIds = self._files
        if not is_folder:
            self._ids = ShardIds([self._path.name], [0, len(self._files)])
        self.classes = list(self._files.classes)
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}

    @property
    def _fields(self) -> dict[str, str]:
        return {name: one.field or name for name, one in self.definitions.items()}

    def __len__(self) -> int:
        return len(self._files)

    def of_stream(self, name: str) -> ImageFolder:
        """Return the same without pictures, if it is the labels that are looked at."""
        if self._fields.get(name) != "label":
            return self
        labels = copy(self)
        labels.definitions = StreamDefs({name: self.definitions[name]})
        return labels

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read."""
        files = self._files
        num_bytes = files.num_bytes or _GUESS * len(files)
        size = sequences_per_chunk(len(files), num_bytes)
        chunks = _core.index.Starts.even(len(files), size)
        empty = self._columns([b""], np.zeros(1, np.int64))
        reader = StoredReader(
            core=_core.read.FetchingDeserializer(partial(self._fetch, ledger)),
            streams=[
                replace(
                    describe_stream(name, column, self.definitions[name]),
                    classes=() if column.dtype == object else tuple(self.classes),
                )
                for name, column in empty.items()
            ],
            chunks=chunks,
            measure=lambda: Sizing.one_each(chunks),
            resident=True,
            sample_bytes=num_bytes / len(files),
        )
        names = [f"{self._path.name} {files.digest}"]
        return StoredCorpus([reader], self._ids, names, index=files.index)

    def _fetch(self, ledger: Ledger, numbers: NDArray[np.uint64]) -> _core.read.Chunk:
        """Return the pictures of a share; unreadable pictures are skipped within the budget."""
        contents = [b""] * len(numbers)
        skipped = []
        if "image" in self._fields.values():
            at_once = _READ_AT_ONCE if len(numbers) >= 2 * _READ_AT_ONCE else 1
            found = side_by_side(
                lambda run: list(map(self.read, run)), numbers.tolist(), at_once
            )
            for place, one in enumerate(found):
                if isinstance(one, DataError):
                    ledger.add(one)
                    skipped.append(place)
                else:
                    contents[place] = one
        columns = self._columns(contents, self._files.labels[numbers])
        return make_chunk(list(columns.values()), owned=False, skipped=skipped)

    def read(self, number: int) -> bytes | DataError:
        """Return the bytes of a picture, or why it cannot be read."""
        path = self._files.folder / self._files.name(number)
        try:
            with guarded(str(path)), open_regular(path) as file:
                return file.read()
        except (DataError, OSError) as error:
            reason = f"the picture cannot be read: {getattr(error, 'strerror', '')}"
            (name,) = self._ids.names(np.array([number]))
            reason = error.reason if isinstance(error, DataError) else reason
            return DataError(reason, str(path), sequence=name)

    def _columns(
        self, contents: Sequence[bytes], labels: NDArray[np.int64]
    ) -> dict[str, ColumnData]:
        own = {
            "image": column_of_bytes(contents),
            "label": ColumnData(labels, labels.dtype, (), len(labels)),
        }
        return {name: own[field] for name, field in self._fields.items()}

    def _description(self) -> str:
        what = [f"{len(self.classes)} classes", *self.definitions]
        return brief([str(self._path.name)], what, len(self._files))


def holds_pictures(look: Look) -> bool:
    """Return True if the folders of a folder hold pictures, or it has a map file."""
    path = look.path
    if not isinstance(path, Path):
        return False
    if path.suffix in _MAP_FILES and look.file:
        line, _, _ = look.head[:4096].partition(b"\n")
        entry = parse_line(line)
        return entry is not None and is_picture(os.fsdecode(entry[0]).rpartition("/")[2])
    if not look.is_dir:
        return False
    with os.scandir(path) as entries:
        first = [one for one in islice(entries, _LOOKED_AT) if not is_leftover(one.name)]
    if any(one.is_file() for one in first):
        return False
    return any(_holds_pictures(Path(folder)) for folder in folders_at(path)[:1])


def _holds_pictures(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        first = list(islice(entries, _LOOKED_AT))
    if any(one.is_file() and is_picture(one.name) for one in first):
        return True
    inner = [Path(one.path) for one in first if one.is_dir() and not is_leftover(one.name)]
    return any(_holds_pictures(one) for one in inner[:1])


@dataclass(frozen=True)
class PictureFiles(SequenceIds):
    """Files and their labels, whose names are ids."""

    folder: Path  # the folder of the relative names
    joined: NDArray[np.uint8]  # the concatenated bytes of all names
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
        return os.fsdecode(self.joined[begin:end].tobytes())

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the sequences with these numbers in the corpus."""
        return [self.name(number) for number in numbers.tolist()]

    def number(self, name: str) -> int:
        """Return the number in the corpus of the sequence with this id."""
        if name not in self._numbers:
            raise KeyError(f"no sequence has the id {name!r}")
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {self.name(number): number for number in range(len(self))}

    @cached_property
    def digest(self) -> str:
        """A digest of all names and labels."""
        found = blake2b(digest_size=8)
        for array in (self.joined, self.offsets, self.labels):
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()


def files_in_folders(folder: Path, keep: Keep) -> PictureFiles:
    """Return the pictures below the folders of a folder, each of which is a class."""
    folders = [Path(one) for one in folders_at(folder)]
    _refuse_splits(folder, folders)
    units = []  # as files whose changes an index detects
    for one in folders:
        seen = one.stat()
        at = str(seen.st_mtime_ns), seen.st_dev, seen.st_ino
        units.append(LocalFile(str(one), one.name, 1, *at))
    if not units:
        raise ValueError(
            f"{str(folder)!r} holds no folders: the pictures of each class lie in their own"
        )
    meaning = {"format": "pictures 1", "suffixes": SUFFIXES}
    index = load_index(units, meaning, _scan, is_current=_is_current, keep=keep)
    counts = np.diff(index.starts["lengths"])
    if not counts.all():
        empty = units[int(np.argmin(counts))].name
        raise ValueError(f"{str(folder)!r}: there is no picture in {empty!r}")
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
    if inner and all(one.name.lower() in _SPLITS for one in inner):
        raise ValueError(
            f"{str(folder)!r} holds the splits {', '.join(one.name for one in inner)}: open "
            f"one of them, such as {str(inner[0])!r}"
        )


def is_picture(name: str) -> bool:
    """Return True if a file is a picture, by its name."""
    return name[:1] != "." and name.lower().endswith(SUFFIXES)


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
    try:
        return all(
            Path(unit.path, name).stat().st_mtime_ns == changed
            for name, changed in facts["folders"]
        )
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
