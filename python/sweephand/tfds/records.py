"""Examples of TFRecord files, any of them at any time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.columns import offsets_of
from sweephand.errors import DataError
from sweephand.examples import PADDING
from sweephand.files import LocalFile, SourceFile, are_local, join_pieces
from sweephand.index_file import Advance, Index, Scan, load_index
from sweephand.remote_path import stat_all
from sweephand.tfds.builder_info import StoredSplit

_LOCAL_WINDOW = 64 << 10  # bytes that are read at a time where only heads of records matter
_REMOTE_WINDOW = 8 << 20


class RecordFiles:
    """The records of all files of some splits; where each lies is known.

    Every split has an index of its own, whatever of it is read.

    Parameters
    ----------
    splits : sequence of StoredSplit

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        If a file has another number of records than the folder says, or a damaged frame.
    """

    def __init__(self, splits: Sequence[StoredSplit]) -> None:
        self.paths = [str(path) for split in splits for path in split.files]
        self.files: list[SourceFile] = []
        self.index_path: Path | None = None
        offsets, counts = [], []
        for split in splits:
            index = _load_index(split)
            self.index_path = index.path
            self.files += index.files
            offsets.append(index.arrays["offsets"])
            counts.append(np.diff(index.starts["offsets"]))
        self._ends: NDArray[np.uint64] = np.concatenate(offsets)
        self._starts = offsets_of(np.concatenate(counts))
        sizes = np.array([file.size for file in self.files], np.uint64)
        self._file_begins = np.cumsum(sizes) - sizes  # in the extents
        self._extents = None
        if are_local(self.files):
            numbers = np.arange(len(sizes), dtype=np.uint64)
            pieces = np.stack([numbers, 0 * sizes, sizes], axis=1)
            self._extents = join_pieces(self.files, pieces)

    @property
    def mean_bytes(self) -> float:
        """Mean bytes of a record."""
        num_records = len(self._ends) - len(self.files)
        return sum(file.size for file in self.files) / max(1, num_records)

    def read(
        self, files: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """Read records, given by their file and their number in it.

        Returns
        -------
        records : ndarray of uint8
            One behind the other, and `PADDING` more bytes.
        offsets : ndarray of uint64
            Where each lies in its file.
        """
        places = self._starts[files] + numbers
        begins = self._ends[places]
        sizes = self._ends[places + 1] - begins
        if self._extents is None:
            return self._fetch(files, begins, sizes), begins
        records = _core.empty_bytes(int(sizes.sum()) + PADDING)
        content = records[: records.size - PADDING]
        self._extents.gather(self._file_begins[files] + begins, sizes, content)
        return records, begins

    def _fetch(
        self, files: NDArray[np.int64], begins: NDArray[np.uint64], sizes: NDArray[np.uint64]
    ) -> NDArray[np.uint8]:
        """Read records of a store, by one request for those that lie one behind the other."""
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


def _load_index(split: StoredSplit) -> Index:
    files = stat_all(split.files)
    index = load_index(files, {"format": "tfrecord frames 1"}, _find_frames)
    counts = np.diff(index.starts["offsets"]) - 1
    for file, count, wanted in zip(files, counts.tolist(), split.shard_lengths, strict=True):
        if count != wanted:
            raise DataError(
                f"the shard has {count} examples, dataset_info.json says {wanted}", file.path
            )
    return index


def _find_frames(file: SourceFile, advance: Advance) -> Scan:
    """Find where the records of a file begin; only heads are read where records are long."""
    finder = _core.FrameFinder(file.path)
    window = _LOCAL_WINDOW if isinstance(file, LocalFile) else _REMOTE_WINDOW
    buffer = np.empty(min(window, file.size), np.uint8)
    at = 0
    while finder.wanted < file.size:
        offset = finder.wanted
        part = buffer[: file.size - offset]
        file.read_into(offset, part)
        finder.feed(offset, part)
        advance(min(finder.wanted, file.size) - at)
        at = finder.wanted
    finder.finish(file.size)
    file.check_unchanged()
    return Scan({"offsets": finder.offsets})
