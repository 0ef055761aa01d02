"""Folders of pictures, one for each class, and the map files that CNTK reads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    ``image=StreamDef(decode="image", shape=(3, 224, 224))``.

    Parameters
    ----------
    path : path
        A folder with a folder for each class, whose pictures may be in subfolders; hidden files
        and those of other suffixes are left out. Or a text file of lines
        ``path<TAB>label`` or ``key<TAB>path<TAB>label``, as CNTK's ImageDeserializer reads it;
        paths are relative to it, ``...`` at their beginning being its folder.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        Of the fields "image" and "label"; by default both.
    index
        As in `ParquetDeserializer`, of the list of files.

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
    >>> sh.ImageFolder(folder).class_to_idx
    {'cat': 0, 'dog': 1}
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
        if self._path.is_dir():
            self._files = _files_in_folders(self._path, keep)
            self._ids: SequenceIds = self._files
        else:
            self._files = _files_in_map(self._path)
            self._ids = ShardIds([self._path.name], [0, len(self._files.labels)])
        self.classes = list(self._files.classes)
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}

    @property
    def _fields(self) -> dict[str, str]:
        return {name: one.field or name for name, one in self.definitions.items()}

    def __len__(self) -> int:
        return len(self._files.labels)

    def of_stream(self, name: str) -> ImageFolder:
        if self._fields.get(name) != "label":
            return self
        labels = copy(self)
        labels.definitions = StreamDefs({name: self.definitions[name]})
        return labels

    def open(self, ledger: Ledger) -> StoredCorpus:
        num_bytes = self._files.num_bytes or _GUESS * len(self)
        chunks = _core.index.Starts.even(len(self), sequences_per_chunk(len(self), num_bytes))
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
            sample_bytes=num_bytes / len(self),
        )
        names = [f"{self._path.name} {self._files.digest}"]
        return StoredCorpus([reader], self._ids, names, index=self._files.index)

    def _fetch(self, ledger: Ledger, numbers: NDArray[np.uint64]) -> _core.read.Chunk:
        """Return the pictures of a share; unreadable pictures are skipped within the budget."""
        contents = [b""] * len(numbers)
        skipped = []
        if "image" in self._fields.values():
            at_once = _READ_AT_ONCE if len(numbers) >= 2 * _READ_AT_ONCE else 1
            found = side_by_side(
                lambda run: list(map(self._read, run)), numbers.tolist(), at_once
            )
            for place, one in enumerate(found):
                if isinstance(one, DataError):
                    ledger.add(one)
                    skipped.append(place)
                else:
                    contents[place] = one
        columns = self._columns(contents, self._files.labels[numbers])
        return make_chunk(list(columns.values()), owned=False, skipped=skipped)

    def _read(self, number: int) -> bytes | DataError:
        path = self._files.folder / os.fsdecode(self._files.paths[number])
        try:
            with guarded(str(path)), open_regular(path) as file:
                return file.read()
        except (DataError, OSError) as error:
            why = error.reason if isinstance(error, DataError) else error.strerror
            (name,) = self._ids.names(np.array([number]))
            return DataError(f"the picture cannot be read: {why}", str(path), sequence=name)

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
        return brief([str(self._path.name)], what, len(self))


def holds_pictures(look: Look) -> bool:
    """Return True if the folders of a folder hold pictures, or it is a map file."""
    path = look.path
    if not isinstance(path, Path):
        return False
    if look.file:
        entry = _parse_line(look.head[:4096].partition(b"\n")[0])
        return entry is not None and _is_picture(os.fsdecode(entry[0]).rpartition("/")[2])
    names = [one for one in look.names[:_LOOKED_AT] if not is_leftover(one.rstrip("/"))]
    folders = [path / one for one in names if one.endswith("/")]
    if len(folders) < len(names):
        return False
    while folders:
        with os.scandir(min(folders)) as entries:
            first = [one for one in islice(entries, _LOOKED_AT) if not is_leftover(one.name)]
        if any(one.is_file() and _is_picture(one.name) for one in first):
            return True
        folders = [Path(one.path) for one in first if one.is_dir()]
    return False


@dataclass(frozen=True)
class _Pictures(SequenceIds):
    """Files and their labels, whose names are ids."""

    folder: Path  # the folder of the relative names
    paths: NDArray[np.bytes_]  # their names
    labels: NDArray[np.int64]
    classes: Sequence[str]  # the names of the labels
    num_bytes: int = 0  # of all files; 0 if unknown
    index: Path | None = None  # where the list is kept

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        return list(map(os.fsdecode, self.paths[numbers.astype(np.int64)].tolist()))

    def number(self, name: str) -> int:
        if name not in self._numbers:
            raise KeyError(f"no sequence has the id {name!r}")
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.names(np.arange(len(self.paths))))}

    @cached_property
    def digest(self) -> str:
        paths = self.paths.tolist()
        found = blake2b(b"".join(paths), digest_size=8)
        found.update(offsets_of(list(map(len, paths))).data)
        found.update(self.labels.data)
        return found.hexdigest()


def _files_in_folders(folder: Path, keep: Keep) -> _Pictures:
    """Return the pictures below the folders of a folder, each of which is a class."""
    units = []  # as files whose changes an index detects
    for path in map(Path, folders_at(folder)):
        seen = path.stat()
        at = str(seen.st_mtime_ns), seen.st_dev, seen.st_ino
        units.append(LocalFile(str(path), path.name, 1, *at))
    names = [unit.name for unit in units]
    if not units:
        raise ValueError(f"{str(folder)!r} holds no folders: each class is one of pictures")
    if all(name.lower() in _SPLITS for name in names):
        raise ValueError(
            f"{str(folder)!r} holds the splits {', '.join(names)}: open one of them, such as "
            f"{units[0].path!r}"
        )
    index = load_index(
        units,
        {"format": "pictures 3", "suffixes": SUFFIXES},
        _scan,
        is_current=_is_current,
        keep=keep,
    )
    counts = np.diff(index.starts["sizes"])
    if not counts.all():
        empty = names[int(np.argmin(counts))]
        raise ValueError(f"{str(folder)!r}: there is no picture in {empty!r}")
    paths = index.arrays["names"].tobytes().split(b"\0")[:-1]
    labels = np.repeat(np.arange(len(units)), counts)
    num_bytes = int(index.arrays["sizes"].sum())
    return _Pictures(folder, np.array(paths), labels, names, num_bytes, index.path)


def _is_picture(name: str) -> bool:
    return name[:1] != "." and name.lower().endswith(SUFFIXES)


def _scan(unit: SourceFile, advance: Advance) -> Scan:
    """List the pictures of a class, and the times of the folders within."""
    found: list[tuple[bytes, int]] = []
    folders = [unit.path]
    times = {}
    for folder in folders:
        if below := folder.removeprefix(unit.path):
            times[below] = Path(folder).stat().st_mtime_ns
        with os.scandir(folder) as entries:
            for one in entries:
                if one.is_dir():
                    folders += [] if is_passed_folder(one.name) else [one.path]
                elif _is_picture(one.name):
                    name = f"{unit.name}{one.path.removeprefix(unit.path)}\0"
                    found.append((os.fsencode(name), one.stat().st_size))
    found.sort()
    advance(unit.size)
    names = np.frombuffer(b"".join(name for name, _ in found), np.uint8)
    sizes = np.array([size for _, size in found], np.uint64)
    return Scan({"names": names, "sizes": sizes}, {"times": times})


def _is_current(unit: SourceFile, facts: Mapping[str, Any]) -> bool:
    """Return False if a folder within a class has changed, whose own time an index knows."""
    with suppress(OSError):
        times = facts["times"].items()
        return all(Path(unit.path + below).stat().st_mtime_ns == time for below, time in times)
    return False


def _files_in_map(path: Path) -> _Pictures:
    """Return the pictures that a map file of CNTK lists."""
    found: list[tuple[bytes, int]] = []
    with open_regular(path) as file:
        for number, line in enumerate(file, 1):
            if entry := _parse_line(line):
                found.append(entry)
            elif line.strip():
                reason = f"this is not path<TAB>label, with a label from 0 on: {line[:60]!r}"
                raise DataError(reason, str(path), line=number)
    if not found:
        raise DataError("the map file lists no picture", str(path))
    names, labels = zip(*found, strict=True)
    classes = list(map(str, range(max(labels) + 1)))
    return _Pictures(path.parent, np.array(names), np.array(labels, np.int64), classes)


def _parse_line(line: bytes) -> tuple[bytes, int] | None:
    """Return path and label of a line of a map file; None if it is no such line."""
    parts = line.strip(b"\r\n").split(b"\t")
    label = parts[-1].strip()  # which counts classes: one of ten digits is none
    if len(parts) not in (2, 3) or not (label.isdigit() and len(label) < 8 and parts[-2]):
        return None
    name = parts[-2].replace(b"\\", b"/") if b"/" not in parts[-2] else parts[-2]
    return name.removeprefix(b".../"), int(label)
