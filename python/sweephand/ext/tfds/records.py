"""Examples of TFRecord files, any of them at any time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError
from sweephand.ext.tfds.builder_info import StoredSplit
from sweephand.extend import (
    PADDING,
    Advance,
    Index,
    Keep,
    LocalFile,
    Scan,
    SourceFile,
    _core,
    access_to,
    join_pieces,
    load_index,
    offsets_of,
    room_for,
    stat_all,
)

_LOCAL_WINDOW = 64 << 10  # bytes that are read at a time where only heads of records matter
_REMOTE_WINDOW = 8 << 20


class RecordFiles:
    """The records of all files of several splits, and their places.

    Every split has an index of its own, whatever of it is read.
    """

    def __init__(self, splits: Sequence[StoredSplit], keep: Keep = "auto") -> None:
        splits = [split for split in splits if split.files]  # one may have no shard
        self.paths = [str(path) for split in splits for path in split.files]
        self.files: list[SourceFile] = []
        self.index_path: Path | None = None
        offsets, counts = [], []
        for split in splits:
            index = _load_index(split, keep)
            self.index_path = index.path
            self.files += index.files
            offsets.append(index.arrays["offsets"])
            counts.append(np.diff(index.starts["offsets"]))
        self._ends: NDArray[np.uint64] = np.concatenate(offsets)
        self._starts = offsets_of(np.concatenate(counts))
        sizes = np.array([file.size for file in self.files], np.uint64)
        self._file_begins = np.cumsum(sizes) - sizes  # in the extents
        self._extents = None
        local = access_to(self.files).local
        if local is not None:
            numbers = np.arange(len(sizes), dtype=np.uint64)
            pieces = np.stack([numbers, 0 * sizes, sizes], axis=1)
            self._extents = join_pieces(local, pieces)

    @property
    def mean_bytes(self) -> float:
        """Mean bytes of a record."""
        num_records = len(self._ends) - len(self.files)
        return sum(file.size for file in self.files) / max(1, num_records)

    def read(
        self, files: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """Read records, given by their file and their number in it.

        Returns them in their frames, with `PADDING` more bytes, and where each begins.
        """
        places = self._starts[files] + numbers
        begins = self._ends[places]
        sizes = self._ends[places + 1] - begins
        if self._extents is None:
            return self._fetch(files, begins, sizes), begins
        longest = self.files[int(files[np.argmax(sizes)])] if len(files) else self.files[0]
        records = room_for(int(sizes.sum()) + PADDING, longest.path)
        content = records[: records.size - PADDING]
        self._extents.gather(self._file_begins[files] + begins, sizes, content)
        return records, begins

    def _fetch(
        self, files: NDArray[np.int64], begins: NDArray[np.uint64], sizes: NDArray[np.uint64]
    ) -> NDArray[np.uint8]:
        """Read records of a store, with one request for each run of adjacent records."""
        ends = begins + sizes
        follows = (files[1:] == files[:-1]) & (begins[1:] == ends[:-1])
        firsts = np.flatnonzero(np.append(True, ~follows))[: files.size].tolist()
        parts: list[NDArray[np.uint8]] = []
        for first, stop in pairwise([*firsts, files.size]):
            file = self.files[files[first]]
            begin, end = int(begins[first]), int(ends[stop - 1])
            parts.append(file.fetch(begin, end - begin, PADDING if stop == files.size else 0))
            file.check_unchanged()
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts or [np.zeros(PADDING, np.uint8)])


def _load_index(split: StoredSplit, keep: Keep) -> Index:
    files = stat_all(split.files)
    meaning = {"format": "tfrecord frames 1"}
    index = load_index(files, meaning, _find_frames, keep=keep)
    counts = np.diff(index.starts["offsets"]) - 1
    for file, count, wanted in zip(files, counts.tolist(), split.shard_lengths, strict=True):
        if count != wanted:
            raise DataError(
                f"the shard has {count} examples, dataset_info.json says {wanted}", file.path
            )
    return index


def _find_frames(file: SourceFile, advance: Advance) -> Scan:
    """Find where the records of a file begin; only heads are read where records are long."""
    finder = _core.formats.FrameFinder(file.path)
    window = _LOCAL_WINDOW if isinstance(file, LocalFile) else _REMOTE_WINDOW
    at = 0
    while finder.wanted < file.size:
        offset = finder.wanted
        finder.feed(offset, file.fetch(offset, min(window, file.size - offset)))
        advance(min(finder.wanted, file.size) - at)
        at = finder.wanted
    finder.finish(file.size)
    file.check_unchanged()
    return Scan({"offsets": finder.offsets})
