"""Indexes: the result of scanning a corpus once, kept in a file beside it or in the cache.

It is a file of records (`run/records.py`): a block whose payload is the header, as JSON, and a
block for each array, whose label is its name and whose payload are its bytes, little endian,
in as few bytes as its values need.

The header has of every array its dtype, the narrower one of its bytes, its shape, and how much
of it belongs to each file; of every file its name, size and tag; and what the index is of.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.errors import DataError, printable
from sweephand.files.local import LocalFile, access_to, open_regular
from sweephand.files.source_file import SourceFile
from sweephand.run.records import RecordKind, block_head, pack_block, read_block
from sweephand.run.writing import replaced_file

FOLDER = ".sweephand"
SUFFIX = ".sweephand-index"

Advance = Callable[[int], object]

Keep = Literal["auto", "cache"] | None
"""The place of an index: beside the data or else in the cache; in the cache; nowhere."""


INDEX = RecordKind(b"SWEEPIDX", 4, "index", "delete it, and it is built again")

Described = tuple[str, int, str]
"""Name, size and tag of a file."""


Arrays = Mapping[str, NDArray[Any]]


class IndexArrays(Mapping[str, NDArray[Any]]):
    """Arrays by name, of their dtypes when they are asked for, and kept in narrower ones."""

    def __init__(
        self, arrays: Arrays, dtypes: Mapping[str, np.dtype[Any]] | None = None
    ) -> None:
        self.kept = {name: _narrow(one) for name, one in arrays.items()}
        self.dtypes = dtypes or {name: one.dtype for name, one in arrays.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.part(name, 0, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.kept)

    def __len__(self) -> int:
        return len(self.kept)

    def part(self, name: str, begin: int, end: int | None) -> NDArray[Any]:
        """Return a range of an array, without the rest."""
        return self.kept[name][begin:end].astype(self.dtypes[name], copy=False)

    def parts(self, bounds: Mapping[str, tuple[int, int]]) -> IndexArrays:
        """Return a range of each."""
        kept = {name: one[slice(*bounds[name])] for name, one in self.kept.items()}
        return IndexArrays(kept, self.dtypes)


def in_few_bytes(arrays: Arrays) -> IndexArrays:
    """Return arrays as an index keeps them."""
    return arrays if isinstance(arrays, IndexArrays) else IndexArrays(arrays)


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "iu" or array.size == 0 or array.min() < 0:
        return array
    dtype = np.min_scalar_type(int(array.max()))
    return array.astype(dtype) if dtype.itemsize < array.dtype.itemsize else array


@dataclass(frozen=True)
class Scan:
    """Result of scanning one file: small facts that are JSON, and arrays.

    The arrays have the same names, dtypes and dimensions for all files of a corpus.
    """

    arrays: Arrays
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Index:
    """Results of scanning all files of a corpus: facts of each, and joined arrays."""

    described: Sequence[Described]  # the files that it is of
    facts: Sequence[Mapping[str, Any]]  # one per file
    arrays: Arrays  # each concatenated over all files; read-only
    starts: Mapping[str, NDArray[np.int64]]  # each file's part of an array, and the end
    files: Sequence[SourceFile] = ()
    path: Path | None = None  # where it is kept

    def scan(self, number: int) -> Scan:
        """Return the scan of one file."""
        bounds = {name: (one[number], one[number + 1]) for name, one in self.starts.items()}
        return Scan(in_few_bytes(self.arrays).parts(bounds), self.facts[number])


def load_index(
    files: Sequence[SourceFile],
    meaning: Mapping[str, Any],
    scan: Callable[[SourceFile, Advance], Scan],
    *,
    is_current: Callable[[SourceFile, Mapping[str, Any]], bool] = lambda *_: True,
    keep: Keep = "auto",
) -> Index:
    """Return the index of a corpus: the kept index, or a new one.

    It is kept in ``.sweephand``, a hidden folder of that of the files, or in the cache folder
    if that cannot be written. All files of a folder that have one meaning share an index; only
    files that it does not know, or that changed since, are scanned.

    Parameters
    ----------
    meaning : dict
        All else that decides what a scan finds, as JSON: the format and its version, the fields
        that were asked for.
    scan : callable
        ``scan(file, advance)`` reads a file once; it is called on several threads, and calls
        ``advance(bytes)`` as it gets on.
    is_current : callable, optional
        ``is_current(file, facts)`` is False if a file has changed in what its size and time do
        not show.
    """
    meaning = json.loads(to_json(meaning))
    places = index_places(files, meaning, keep)
    owners = trusted_owners(files[0])
    wanted = describe_files(files)
    file_of = dict(zip(wanted, files, strict=True))
    known: dict[Described, Scan] = {}
    found: Path | None = None
    for path in places:
        kept = read_index(path, meaning, owners)
        if kept is None:
            continue
        current = [
            one not in file_of or is_current(file_of[one], facts)
            for one, facts in zip(kept.described, kept.facts, strict=True)
        ]
        if kept.described == wanted and all(current):
            return replace(kept, files=files)
        for number, one in enumerate(kept.described):
            if current[number]:
                known[one] = kept.scan(number)
        found = found or path
    scans = _scan_all(files, [known.get(one) for one in wanted], scan)
    index = join_scans(files, scans)
    if places and not all(one in known for one in wanted):
        # With other files of the folder that were not replaced or removed.
        names, folder = {name for name, _, _ in wanted}, folder_of(files[0])
        others = {
            one: scan
            for one, scan in known.items()
            if one[0] not in names and (folder is None or (folder / one[0]).exists())
        }
        whole = join_scans([], [*scans, *others.values()]) if others else index
        whole = replace(whole, described=[*wanted, *others])
        found = keep_index(whole, meaning, places_to_write(places, owners))
    return replace(index, path=found)


def trusted_owners(file: SourceFile) -> set[int]:
    """Return the trusted owners of an index: this user, root, and the owner of the file."""
    owners = {os.geteuid(), 0}
    if isinstance(file, LocalFile):
        owners.add(os.stat(file.path).st_uid)  # noqa: PTH116 - no other call of the system
    return owners


def describe_files(files: Sequence[SourceFile]) -> list[Described]:
    """Return names, sizes and tags of files; paths for those outside the first's folder."""
    begin = begin_of(files[0]) if files else ""
    return [
        (file.name if file.path == begin + file.name else file.path, file.size, file.tag)
        for file in files
    ]


def join_scans(files: Sequence[SourceFile], scans: Sequence[Scan]) -> Index:
    """Join the scans of files into an index of all."""
    counts = {name: [len(scan.arrays[name]) for scan in scans] for name in scans[0].arrays}
    few = [in_few_bytes(scan.arrays) for scan in scans]
    joined = {name: np.concatenate([one.kept[name] for one in few]) for name in few[0]}
    return Index(
        describe_files(files),
        [scan.facts for scan in scans],
        IndexArrays(joined, few[0].dtypes) if len(few) > 1 else few[0],
        {name: np.cumsum([0, *own], dtype=np.int64) for name, own in counts.items()},
        files,
    )


def _scan_all(
    files: Sequence[SourceFile],
    known: Sequence[Scan | None],
    scan: Callable[[SourceFile, Advance], Scan],
) -> list[Scan]:
    from concurrent.futures import ThreadPoolExecutor  # only here, as it brings logging

    unknown = [file for file, kept in zip(files, known, strict=True) if kept is None]
    num_threads = min(access_to(files).threads(os.cpu_count() or 1), max(1, len(unknown)))
    with (
        show_progress("building the index", sum(file.size for file in unknown)) as advance,
        ThreadPoolExecutor(num_threads, "sweephand-index") as threads,
    ):
        scanned = threads.map(lambda file: scan(file, advance), unknown)
        return [next(scanned) if kept is None else kept for kept in known]


@contextmanager
def show_progress(what: str, total: int) -> Iterator[Advance]:
    """Show a bar on a terminal; yields a function that advances it."""
    if not sys.stderr.isatty():
        yield lambda num_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    columns = (what, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda num_bytes: bar.advance(task, num_bytes)


def keep_index(
    content: Index, meaning: Mapping[str, Any], places: Sequence[Path]
) -> Path | None:
    """Write an index to the first place that can be written; warn if there is none."""
    failures = []
    for path in places:
        try:
            write_index(path, content, meaning)
        except OSError as error:
            failures.append(str(error) if error.filename else f"{error}: {str(path)!r}")
        else:
            return path
    tried = printable("; ".join(failures) or "others keep theirs there")
    warnings.warn(
        f"the index cannot be kept, so it will be built again: {tried}; "
        "name a folder for it by the variable SWEEPHAND_CACHE",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def check_keep(index: object) -> Keep:
    """Return the value of an option ``index=``; ValueError if there is no such place."""
    if index == "auto" or index == "cache" or index is None:
        return index
    raise ValueError(f"index must be 'auto', 'cache' or None, got {index!r}")


def index_places(
    files: Sequence[SourceFile], meaning: Mapping[str, Any], keep: Keep = "auto"
) -> list[Path]:
    """Return the places for an index, the best first: its name is a hash of its meaning."""
    if keep is None:
        return []
    folder = folder_of(files[0])
    name = f"{meaning['format']}.{digest_of(to_json(meaning))[:16]}{SUFFIX}".replace(" ", "-")
    begin = digest_of(to_json(begin_of(files[0])))[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    own = os.environ.get("SWEEPHAND_CACHE") or Path(cache) / "sweephand"
    cached = Path(own) / f".{begin}.{name}"
    return [cached] if keep == "cache" or folder is None else [folder / FOLDER / name, cached]


def places_to_write(places: Sequence[Path], owners: Collection[int]) -> list[Path]:
    """Return the places that are ours: the index of another user is not replaced."""

    def is_ours(path: Path) -> bool:
        try:
            return path.lstat().st_uid in owners
        except OSError:
            return True  # it is free, or the attempt to write there shows why

    return [
        path
        for path in places
        if is_ours(path)
        and (path.parent.name != FOLDER or is_ours(path.parent))
        and not (path.parent.name == FOLDER and path.parent.is_symlink())
    ]


def folder_of(file: SourceFile) -> Path | None:
    """Return the folder that the names of local files are relative to."""
    if not isinstance(file, LocalFile):
        return None
    return Path(file.path).parents[len(Path(file.name).parents) - 1]


def begin_of(file: SourceFile) -> str:
    """Return the part of a file's path before its name."""
    return file.path.removesuffix(file.name)


def write_index(path: Path, content: Index, meaning: Mapping[str, Any]) -> None:
    """Write to a name of its own, to the disk, and rename: readers see all of it or nothing."""
    few = in_few_bytes(content.arrays)
    payloads = {name: np.ascontiguousarray(few.kept[name]) for name in sorted(few)}
    described = {
        name: {
            "dtype": few.dtypes[name].newbyteorder("<").str,
            "kept": one.dtype.newbyteorder("<").str,
            "shape": one.shape,
            "starts": content.starts[name].tolist(),
        }
        for name, one in payloads.items()
    }
    header = {"meaning": meaning, "files": content.described, "facts": content.facts}
    header |= {"arrays": described}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as out:
        out.write(INDEX.head + pack_block(b"", to_json(header)))
        for name, payload in payloads.items():
            out.write(block_head(name.encode(), payload.data))
            out.write(payload.data)


def read_index(path: Path, meaning: Mapping[str, Any], owners: Collection[int]) -> Index | None:
    """Return the content of an index file; None if it is absent or of no use.

    Of no use are damaged files, as they can be built again, and files of a user outside
    `owners`: the writer of an index decides which bytes are read. An index without
    damage is believed.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_uid not in owners:
                return None
            if not INDEX.begins(file.read(len(INDEX.head))):
                return None
            header = json.loads(bytes(read_block(file)[1]))
            if header["meaning"] != meaning:
                return None
            described = header["arrays"]
            arrays = {}
            for name, one in described.items():  # each in memory that can be freed by itself
                kept = np.frombuffer(read_block(file)[1].toreadonly(), np.dtype(one["kept"]))
                arrays[name] = kept.reshape(one["shape"])
    except (DataError, OSError, ValueError):
        return None
    starts = {name: np.array(one["starts"], np.int64) for name, one in described.items()}
    files = [(name, size, tag) for name, size, tag in header["files"]]
    dtypes = {name: np.dtype(one["dtype"]) for name, one in described.items()}
    return Index(files, header["facts"], IndexArrays(arrays, dtypes), starts, path=path)


def to_json(value: object) -> bytes:
    """Return a value in the one way that it is written."""
    return json.dumps(value, sort_keys=True, allow_nan=False).encode()


def digest_of(content: bytes | memoryview) -> str:
    """Return a digest of bytes."""
    digest = _core.base.Digest()
    digest.update(content)
    return digest.hex()
