"""Indexes: what was learnt by reading a corpus once, kept in a file beside it.

::

    | "SWEEPIDX" | u32 version | u32 0 | u64 header bytes | header digest: 32 hex digits |
    | header: JSON | 0 ... | array | 0 ... | array | ...        arrays begin at multiples of 64

Numbers are little endian. The header says of every array its name, dtype, place, digest and how
much of it belongs to each file; of every file its name, size and tag; and what the index is of.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.files import REMOTE_LOAD_THREADS, LocalFile, SourceFile, are_local

SUFFIX = ".sweephand-index"

_MAGIC = b"SWEEPIDX"
_VERSION = 1
_PREFIX = 8 + 4 + 4 + 8 + 32
_ALIGNMENT = 64

Arrays = Mapping[str, NDArray[Any]]
_Described = tuple[str, int, str]  # name, size and tag of a file
Advance = Callable[[int], object]


@dataclass(frozen=True)
class Scan:
    """What was learnt by reading one file.

    Attributes
    ----------
    arrays : dict of ndarray
        The same names, dtypes and dimensions for all files of a corpus.
    facts : dict
        Anything small that is JSON.
    """

    arrays: Arrays
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Index:
    """What was learnt of all files of a corpus.

    Attributes
    ----------
    files : list of SourceFile
    facts : list of dict
        One per file.
    arrays : dict of ndarray
        Each of all files, one behind the other; read-only.
    starts : dict of ndarray of int64, shape (files + 1,)
        Where each file's part of an array begins, and the end.
    path : Path or None
        Where it is kept.
    """

    files: Sequence[SourceFile]
    facts: Sequence[Mapping[str, Any]]
    arrays: Arrays
    starts: Mapping[str, NDArray[np.int64]]
    path: Path | None = None

    def scan(self, number: int) -> Scan:
        """Return what was learnt of one file."""
        parts = {
            name: array[self.starts[name][number] : self.starts[name][number + 1]]
            for name, array in self.arrays.items()
        }
        return Scan(parts, self.facts[number])


@dataclass(frozen=True)
class _Kept:
    """What lies in an index file: the files it is of, and what was learnt of them."""

    described: Sequence[_Described]
    index: Index


def load_index(
    files: Sequence[SourceFile],
    meaning: Mapping[str, Any],
    scan: Callable[[SourceFile, Advance], Scan],
    *,
    is_kept: bool = True,
) -> Index:
    """Return the index of a corpus: the one that is kept, or a new one.

    It is kept in the folder of the files, or in the cache folder if that cannot be written: the
    one that the variable SWEEPHAND_CACHE names, else ``sweephand`` in XDG_CACHE_HOME or
    ``~/.cache``. All files of a folder that have one meaning share an index. Only files that it
    does not know, or that changed since, are scanned.

    Parameters
    ----------
    files : sequence of SourceFile
        The corpus.
    meaning : dict
        All else that decides what a scan finds, as JSON: the format and its version, the fields
        that were asked for.
    scan : callable
        ``scan(file, advance)`` reads a file once; it is called on several threads, and calls
        ``advance(bytes)`` as it gets on.
    is_kept : bool
        False: all files are scanned, and nothing is written.

    Raises
    ------
    DataError, OSError
        What the scan of the first file that fails raises.
    """
    meaning = json.loads(json.dumps(meaning))
    places = index_places(files, meaning) if is_kept else []
    wanted = _describe(files)
    known: dict[_Described, Scan] = {}
    found: Path | None = None
    for path in places:
        kept = _read(path, meaning)
        if kept is not None and kept.described == wanted:
            return replace(kept.index, files=files, path=path)
        if kept is not None:
            found = found or path
            known |= {one: kept.index.scan(i) for i, one in enumerate(kept.described)}
    scans = _scan_all(files, [known.get(one) for one in wanted], scan)
    index = join_scans(files, scans)
    if places and not all(one in known for one in wanted):
        others = _still_there(files, known)
        described = [*wanted, *others]
        whole = join_scans([], [*scans, *others.values()]) if others else index
        kept = _Kept(described, whole)
        found = _keep(kept, meaning, places)
    return replace(index, path=found)


def _still_there(
    files: Sequence[SourceFile], known: Mapping[_Described, Scan]
) -> dict[_Described, Scan]:
    """Return what is known of other files, and of no file that was replaced or removed."""
    names = {name for name, _, _ in _describe(files)}
    folder = _folder_of(files[0])
    return {
        one: scan
        for one, scan in known.items()
        if one[0] not in names and (folder is None or (folder / one[0]).exists())
    }


def cache_folder() -> Path:
    """Return the folder for indexes that cannot lie beside their data."""
    given = os.environ.get("SWEEPHAND_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sweephand"


def index_places(files: Sequence[SourceFile], meaning: Mapping[str, Any]) -> list[Path]:
    """Return where an index may lie, the best place first: its name tells what it is of."""
    of_meaning = _digest(_to_json(meaning))[:16]
    kind = str(meaning["format"]).replace(" ", "-")
    folder = _folder_of(files[0])
    of_folder = _digest(_to_json([meaning, _begin_of(files[0])]))[:16]
    cached = cache_folder() / f"{kind}.{of_folder}{SUFFIX}"
    return [cached] if folder is None else [folder / f"{kind}.{of_meaning}{SUFFIX}", cached]


def _folder_of(file: SourceFile) -> Path | None:
    """Return the folder that the names of local files are relative to."""
    if not isinstance(file, LocalFile):
        return None
    return Path(file.path).parents[len(Path(file.name).parents) - 1]


def _describe(files: Sequence[SourceFile]) -> list[_Described]:
    """Return what identifies files; those that lie elsewhere than the first by their path."""
    begin = _begin_of(files[0])
    return [
        (file.name if file.path == begin + file.name else file.path, file.size, file.tag)
        for file in files
    ]


def _begin_of(file: SourceFile) -> str:
    """Return what comes before its name in the path of a file."""
    return file.path.removesuffix(file.name)


def join_scans(files: Sequence[SourceFile], scans: Sequence[Scan]) -> Index:
    """Return what was learnt of each file as an index of all."""
    names = list(scans[0].arrays)
    return Index(
        files,
        [scan.facts for scan in scans],
        {name: _join([scan.arrays[name] for scan in scans]) for name in names},
        {name: _starts([len(scan.arrays[name]) for scan in scans]) for name in names},
    )


def _join(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _scan_all(
    files: Sequence[SourceFile],
    known: Sequence[Scan | None],
    scan: Callable[[SourceFile, Advance], Scan],
) -> list[Scan]:
    num_threads = os.cpu_count() or 1 if are_local(files) else REMOTE_LOAD_THREADS
    with (
        show_progress("building the index", sum(file.size for file in files)) as advance,
        ThreadPoolExecutor(min(num_threads, len(files)), "sweephand-index") as threads,
    ):
        futures: list[Future[Scan] | Scan] = []
        for file, kept in zip(files, known, strict=True):
            if kept is None:
                futures.append(threads.submit(scan, file, advance))
            else:
                advance(file.size)
                futures.append(kept)
        try:
            return [one if isinstance(one, Scan) else one.result() for one in futures]
        except BaseException:
            threads.shutdown(wait=True, cancel_futures=True)
            raise


@contextmanager
def show_progress(what: str, total: int) -> Iterator[Advance]:
    """Show a bar if someone looks at it; yields what moves it by a part of the total."""
    if not sys.stderr.isatty():
        yield lambda num_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    columns = (what, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda num_bytes: bar.advance(task, num_bytes)


def _keep(kept: _Kept, meaning: Mapping[str, Any], places: Sequence[Path]) -> Path | None:
    failures = []
    for path in places:
        try:
            _write(path, kept, meaning)
        except OSError as error:
            failures.append(str(error))
        else:
            return path
    warnings.warn(
        f"the index cannot be kept, so it will be built again: {'; '.join(failures)}; "
        "name a folder for it by the variable SWEEPHAND_CACHE",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _write(path: Path, kept: _Kept, meaning: Mapping[str, Any]) -> None:
    """Write to a name of its own, to the disk, and rename: readers see all of it or nothing."""
    index = kept.index
    arrays = {name: np.ascontiguousarray(index.arrays[name]) for name in sorted(index.arrays)}
    described = {
        name: {
            "dtype": array.dtype.newbyteorder("<").str,
            "shape": array.shape,
            "starts": index.starts[name].tolist(),
            "digest": _digest(array.data),
        }
        for name, array in arrays.items()
    }
    header = _to_json(
        {
            "meaning": meaning,
            "files": kept.described,
            "facts": index.facts,
            "arrays": described,
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with unfinished.open("xb") as out:
            out.write(_MAGIC + _VERSION.to_bytes(4, "little") + bytes(4))
            out.write(len(header).to_bytes(8, "little") + _digest(header).encode() + header)
            for array in arrays.values():
                out.write(bytes(-out.tell() % _ALIGNMENT))
                out.write(array.data)
            out.flush()
            os.fsync(out.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _read(path: Path, meaning: Mapping[str, Any]) -> _Kept | None:
    """Return what an index file holds; None if it is absent or of no use.

    One that is damaged is of no use: it can be built again.
    """
    try:
        with path.open("rb") as file:
            header = _read_header(file)
            if header["meaning"] != meaning:
                return None
            arrays = {
                name: _read_array(file, described)
                for name, described in header["arrays"].items()
            }
        starts = {
            name: np.array(described["starts"], np.int64)
            for name, described in header["arrays"].items()
        }
        files = [(name, size, tag) for name, size, tag in header["files"]]
        return _Kept(files, Index([], header["facts"], arrays, starts))
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _read_header(file: BinaryIO) -> dict[str, Any]:
    prefix = file.read(_PREFIX)
    if prefix[:8] != _MAGIC or int.from_bytes(prefix[8:12], "little") != _VERSION:
        raise ValueError("no index of this version")
    header = _read_bytes(file, int.from_bytes(prefix[16:24], "little"))
    if _digest(header).encode() != prefix[24:]:
        raise ValueError("the header is damaged")
    found: dict[str, Any] = json.loads(header)
    return found


def _read_array(file: BinaryIO, described: Mapping[str, Any]) -> NDArray[Any]:
    """Return an array in memory of its own, so that one can go while others stay."""
    file.seek(-file.tell() % _ALIGNMENT, os.SEEK_CUR)
    dtype = np.dtype(described["dtype"])
    shape = tuple(described["shape"])
    content = _read_bytes(file, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
    if _digest(content) != described["digest"]:
        raise ValueError("an array is damaged")
    array = np.frombuffer(content, dtype) if content else np.empty(0, dtype)
    return array.reshape(shape)


def _read_bytes(file: BinaryIO, size: int) -> bytes:
    """Read some bytes; a damaged size takes no memory."""
    if not 0 <= size <= os.fstat(file.fileno()).st_size - file.tell():
        raise ValueError("the file ends too early")
    return file.read(size)


def _starts(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def _to_json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(content: bytes | memoryview) -> str:
    digest = _core.Digest()
    digest.update(content)
    return digest.hex()
