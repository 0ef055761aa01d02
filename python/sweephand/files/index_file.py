"""Indexes: the result of scanning a corpus once, kept in a file beside it."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweephand.errors import printable
from sweephand.files.access import access_to
from sweephand.files.index_arrays import IndexArrays, join_stored, stored_in
from sweephand.files.index_content import (
    Arrays,
    Described,
    IndexContent,
    read_index,
    write_index,
)
from sweephand.files.index_places import (
    Keep,
    begin_of,
    folder_of,
    index_places,
    places_to_write,
)
from sweephand.files.local import LocalFile
from sweephand.files.source_file import SourceFile
from sweephand.run.strict_json import to_json

if TYPE_CHECKING:
    from concurrent.futures import Future

Advance = Callable[[int], object]


@dataclass(frozen=True)
class Scan:
    """Result of scanning one file.

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
    """Results of scanning all files of a corpus.

    Attributes
    ----------
    facts : list of dict
        One per file.
    arrays : dict of ndarray
        Each concatenated over all files; read-only.
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
        """Return the scan of one file."""
        bounds = {
            name: (int(starts[number]), int(starts[number + 1]))
            for name, starts in self.starts.items()
        }
        arrays = IndexArrays(stored_in(self.arrays))
        return Scan(arrays.part(bounds), self.facts[number])


def load_index(
    files: Sequence[SourceFile],
    meaning: Mapping[str, Any],
    scan: Callable[[SourceFile, Advance], Scan],
    *,
    is_current: Callable[[SourceFile, Mapping[str, Any]], bool] = lambda *_: True,
    keep: Keep = "auto",
) -> Index:
    """Return the index of a corpus: the kept index, or a new one.

    It is kept in ``.sweephand``, a hidden folder of that of the files, which other readers pass
    over, or in the cache folder if that cannot be written: the one that the variable
    SWEEPHAND_CACHE names, else ``sweephand`` in XDG_CACHE_HOME or ``~/.cache``. All files of a
    folder that have one meaning share an index. Only files that it does not know, or that
    changed since, are scanned.

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
    is_current : callable, optional
        ``is_current(file, facts)`` is False if a file has changed in what its size and time do
        not show: it is scanned again.
    keep : {"auto", "cache", None}
        "cache": only in the cache folder; None: all files are scanned, and nothing is written.

    Raises
    ------
    DataError, OSError
        What the scan of the first file that fails raises.
    """
    meaning = json.loads(to_json(meaning))
    places = index_places(files, meaning, keep)
    owners = trusted_owners(files[0])
    wanted = describe_files(files)
    file_of = dict(zip(wanted, files, strict=True))
    known: dict[Described, Scan] = {}
    found: Path | None = None
    for path in places:
        content = read_index(path, meaning, owners)
        if content is None:
            continue
        stale = {
            one
            for one, facts in zip(content.described, content.facts, strict=True)
            if one in file_of and not is_current(file_of[one], facts)
        }
        if content.described == wanted and not stale:
            return Index(files, content.facts, content.arrays, content.starts, path)
        kept = Index([], content.facts, content.arrays, content.starts)
        known |= {
            one: kept.scan(number)
            for number, one in enumerate(content.described)
            if one not in stale
        }
        found = found or path
    scans = _scan_all(files, [known.get(one) for one in wanted], scan)
    index = join_scans(files, scans)
    if places and not all(one in known for one in wanted):
        others = _still_there(files, known)
        described = [*wanted, *others]
        whole = join_scans([], [*scans, *others.values()]) if others else index
        content = IndexContent(described, whole.facts, whole.arrays, whole.starts)
        found = keep_index(content, meaning, places_to_write(places, owners))
    return replace(index, path=found)


def trusted_owners(file: SourceFile) -> set[int]:
    """Return the trusted owners of an index: this user, root, and the owner of the file."""
    owners = {os.geteuid(), 0}
    if isinstance(file, LocalFile):
        owners.add(os.stat(file.path).st_uid)  # noqa: PTH116 - no other call of the system
    return owners


def _still_there(
    files: Sequence[SourceFile], known: Mapping[Described, Scan]
) -> dict[Described, Scan]:
    """Return the scans of other files in the folder that were not replaced or removed."""
    names = {name for name, _, _ in describe_files(files)}
    folder = folder_of(files[0])
    return {
        one: scan
        for one, scan in known.items()
        if one[0] not in names and (folder is None or (folder / one[0]).exists())
    }


def describe_files(files: Sequence[SourceFile]) -> list[Described]:
    """Return names, sizes and tags of files; paths for those outside the first's folder."""
    begin = begin_of(files[0])
    return [
        (file.name if file.path == begin + file.name else file.path, file.size, file.tag)
        for file in files
    ]


def join_scans(files: Sequence[SourceFile], scans: Sequence[Scan]) -> Index:
    """Join the scans of files into an index of all."""
    stored = [stored_in(scan.arrays) for scan in scans]
    parts = {name: [one[name] for one in stored] for name in stored[0]}
    return Index(
        files,
        [scan.facts for scan in scans],
        IndexArrays({name: join_stored(own) for name, own in parts.items()}),
        {name: _starts([len(one) for one in own]) for name, own in parts.items()},
    )


def _scan_all(
    files: Sequence[SourceFile],
    known: Sequence[Scan | None],
    scan: Callable[[SourceFile, Advance], Scan],
) -> list[Scan]:
    from concurrent.futures import ThreadPoolExecutor  # only here, as it brings logging

    num_threads = access_to(files).threads(os.cpu_count() or 1)
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
    content: IndexContent, meaning: Mapping[str, Any], places: Sequence[Path]
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


def _starts(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
