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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.files import LocalFile, SourceFile

SUFFIX = ".sweephand-index"

_MAGIC = b"SWEEPIDX"
_VERSION = 1
_PREFIX = 8 + 4 + 4 + 8 + 32
_ALIGNMENT = 64
_REMOTE_THREADS = 16

Arrays = Mapping[str, NDArray[Any]]
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
    """

    files: Sequence[SourceFile]
    facts: Sequence[Mapping[str, Any]]
    arrays: Arrays
    starts: Mapping[str, NDArray[np.int64]]

    def scan(self, number: int) -> Scan:
        """Return what was learnt of one file."""
        parts = {
            name: array[self.starts[name][number] : self.starts[name][number + 1]]
            for name, array in self.arrays.items()
        }
        return Scan(parts, self.facts[number])


def load_index(
    files: Sequence[SourceFile],
    meaning: Mapping[str, Any],
    scan: Callable[[SourceFile, Advance], Scan],
) -> Index:
    """Return the index of a corpus: the one that is kept, or a new one.

    It is kept beside the first file, or in the cache folder if that cannot be written: the one
    that the variable SWEEPHAND_CACHE names, else ``sweephand`` in XDG_CACHE_HOME or
    ``~/.cache``. Files that changed since are scanned again.

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

    Raises
    ------
    DataError, OSError
        What the scan of the first file that fails raises.
    """
    meaning = json.loads(json.dumps(meaning))
    places = _places(files, meaning)
    known: dict[str, Scan] = {}
    for path in places:
        kept = _read(path, meaning)
        if kept is None:
            continue
        found, index = kept
        if found == _describe(files):
            return replace(index, files=files)
        known |= {json.dumps(source): index.scan(i) for i, source in enumerate(found)}
    index = join_scans(files, _scan_all(files, known, scan))
    _keep(index, meaning, places)
    return index


def cache_folder() -> Path:
    """Return the folder for indexes that cannot lie beside their data."""
    given = os.environ.get("SWEEPHAND_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sweephand"


def _places(files: Sequence[SourceFile], meaning: Mapping[str, Any]) -> list[Path]:
    """Return where the index may lie: the name carries a digest of what it is of."""
    first = files[0]
    what = [meaning, [file.name for file in files]]
    name = f"{Path(first.name).name}.{_digest(_to_json(what))[:16]}{SUFFIX}"
    cached = f"{Path(first.name).name}.{_digest(_to_json([what, first.path]))[:16]}{SUFFIX}"
    places = [cache_folder() / cached]
    if isinstance(first, LocalFile):
        # Nested corpora lie below the folder that their first file's name is relative to.
        depth = len(Path(first.name).parents)
        places.insert(0, Path(first.path).parents[depth - 1] / name)
        places[1] = cache_folder() / cached
    return places


def _describe(files: Sequence[SourceFile]) -> list[list[str | int]]:
    return [[file.name, file.size, file.tag] for file in files]


def join_scans(files: Sequence[SourceFile], scans: Sequence[Scan]) -> Index:
    """Return what was learnt of each file as an index of all."""
    names = list(scans[0].arrays)
    return Index(
        files,
        [scan.facts for scan in scans],
        {name: np.concatenate([scan.arrays[name] for scan in scans]) for name in names},
        {name: _starts([len(scan.arrays[name]) for scan in scans]) for name in names},
    )


def _scan_all(
    files: Sequence[SourceFile],
    known: Mapping[str, Scan],
    scan: Callable[[SourceFile, Advance], Scan],
) -> list[Scan]:
    remote = not all(isinstance(file, LocalFile) for file in files)
    num_threads = _REMOTE_THREADS if remote else os.cpu_count() or 1
    with (
        show_progress("building the index", sum(file.size for file in files)) as advance,
        ThreadPoolExecutor(min(num_threads, len(files)), "sweephand-index") as threads,
    ):
        futures: list[Future[Scan] | Scan] = []
        for file in files:
            source = json.dumps(_describe([file])[0])
            if source in known:
                advance(file.size)
                futures.append(known[source])
            else:
                futures.append(threads.submit(scan, file, advance))
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


def _keep(index: Index, meaning: Mapping[str, Any], places: Sequence[Path]) -> None:
    failures = []
    for path in places:
        try:
            _write(path, index, meaning)
        except OSError as error:
            failures.append(str(error))
        else:
            return
    warnings.warn(
        f"the index cannot be kept, so it will be built again: {'; '.join(failures)}; "
        "name a folder for it by the variable SWEEPHAND_CACHE",
        RuntimeWarning,
        stacklevel=2,
    )


def _write(path: Path, index: Index, meaning: Mapping[str, Any]) -> None:
    """Write to a name of its own, to the disk, and rename: readers see all of it or nothing."""
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
            "files": _describe(index.files),
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


def _read(path: Path, meaning: Mapping[str, Any]) -> tuple[list[Any], Index] | None:
    """Return the files that a kept index is of, and it; None if it is absent or of no use.

    One that is damaged is of no use: it can be built again.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    try:
        header, rest = _read_header(content)
        if header["meaning"] != meaning:
            return None
        arrays = {}
        for name, described in header["arrays"].items():
            arrays[name], rest = _read_array(content, rest, described)
        starts = {
            name: np.array(described["starts"], np.int64)
            for name, described in header["arrays"].items()
        }
        return header["files"], Index([], header["facts"], arrays, starts)
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _read_header(content: bytes) -> tuple[dict[str, Any], int]:
    if content[:8] != _MAGIC or int.from_bytes(content[8:12], "little") != _VERSION:
        raise ValueError("no index of this version")
    end = _PREFIX + int.from_bytes(content[16:24], "little")
    header = content[_PREFIX:end]
    if _digest(header).encode() != content[24:_PREFIX]:
        raise ValueError("the header is damaged")
    return json.loads(header), end


def _read_array(
    content: bytes, end: int, described: Mapping[str, Any]
) -> tuple[NDArray[Any], int]:
    begin = end + -end % _ALIGNMENT
    dtype = np.dtype(described["dtype"])
    shape = tuple(described["shape"])
    count = int(np.prod(shape, dtype=np.int64))
    end = begin + count * dtype.itemsize
    if _digest(memoryview(content)[begin:end]) != described["digest"]:
        raise ValueError("an array is damaged")
    array = np.frombuffer(content, dtype, count, begin) if count else np.empty(0, dtype)
    return array.reshape(shape), end


def _starts(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def _to_json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(content: bytes | memoryview) -> str:
    digest = _core.Digest()
    digest.update(content)
    return digest.hex()
