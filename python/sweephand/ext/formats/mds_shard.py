"""The table of a shard, and the places of its samples' columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError
from sweephand.ext.formats.mds_index import MdsColumn
from sweephand.extend import LocalFile, SourceFile, join_pieces, offsets_of, room_for

_TABLE = np.dtype("<u4")
_MOST_HEAD = 2 + 8 * 8  # bytes before the values of an array


class MdsShard:
    """One shard, of whose samples only the first bytes are looked at.

    Attributes
    ----------
    offsets : ndarray of int64, shape (samples + 1,)
        Where each sample begins, and the end.

    Raises
    ------
    DataError
        If its table is not what the index says.
    """

    def __init__(
        self, file: SourceFile, columns: Sequence[MdsColumn], num_samples: int
    ) -> None:
        self.file = file
        self._columns = columns
        self._content: NDArray[np.uint8] | None = None
        head = self._head(0, 4).view(_TABLE)
        if int(head[0]) != num_samples:
            raise DataError(
                f"the shard has {int(head[0])} samples, and the index says {num_samples}",
                file.path,
                0,
            )
        table = self._head(4, 4 * (num_samples + 1)).view(_TABLE).astype(np.int64)
        wrong = np.flatnonzero(np.diff(table) < 0)
        begin = 4 * (num_samples + 2)
        if len(wrong) or table[0] < begin or table[-1] != file.size:
            place = int(wrong[0]) if len(wrong) else 0
            raise DataError(
                "the offsets of samples do not ascend to the end of the shard: it was cut, or "
                "has more than 4 GiB, for which its offsets have no room",
                file.path,
                4 + 4 * place,
            )
        self.offsets = table
        self._sizes = self._sizes_of_columns()

    def _head(self, offset: int, size: int) -> NDArray[np.uint8]:
        if size > self.file.size - offset:
            raise DataError("the shard ends within its table; it was cut", self.file.path, 0)
        return self._gather(np.array([offset]), np.array([size]))

    def _gather(
        self, begins: NDArray[np.integer], sizes: NDArray[np.integer]
    ) -> NDArray[np.uint8]:
        """Return short runs of bytes; those of a store are requested in one go."""
        total = int(sizes.sum())
        if isinstance(self.file, LocalFile):
            run = join_pieces([self.file], np.array([[0, 0, self.file.size]], np.uint64))
            found = room_for(total, self.file.path)
            run.gather(begins.astype(np.uint64), sizes.astype(np.uint64), found)
            return found
        if self._content is None:
            self._content = self.file.fetch(0, self.file.size)
        places = np.repeat(begins - offsets_of(sizes)[:-1], sizes) + np.arange(total)
        return self._content[places]

    def _sizes_of_columns(self) -> NDArray[np.int64]:
        """Return the bytes of every column of every sample; -1 where a sample is too short."""
        lengths = np.diff(self.offsets)
        variable = [number for number, one in enumerate(self._columns) if one.size is None]
        sizes = np.full((len(lengths), len(self._columns)), -1, np.int64)
        for number, one in enumerate(self._columns):
            sizes[:, number] = one.size or -1
        is_long = lengths >= 4 * len(variable)
        if variable:
            begins = self.offsets[:-1][is_long]
            words = self._gather(begins, np.full(len(begins), 4 * len(variable), np.int64))
            sizes[np.ix_(np.flatnonzero(is_long), np.array(variable))] = words.view(
                _TABLE
            ).reshape(-1, len(variable))
        self._head_bytes = 4 * len(variable)
        self._is_whole = is_long & (self._head_bytes + sizes.sum(axis=1) == lengths)
        return sizes

    def faults(self) -> dict[int, DataError]:
        """Return the faults by sample."""
        reason = "the columns of the sample are not as long as the sample is"
        return {
            row: self.fault(row, reason) for row in np.flatnonzero(~self._is_whole).tolist()
        }

    def fault(self, row: int, reason: str, stream: str | None = None) -> DataError:
        """Return an error for a sample."""
        at = int(self.offsets[row])
        return DataError(reason, self.file.path, at, stream=stream, sequence=row)

    def places(
        self, column: MdsColumn, faults: dict[int, DataError]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return place and size of a column in every sample; size 0 for those with faults."""
        number = self._columns.index(column)
        before = self._sizes[:, :number].sum(axis=1)
        begins = self.offsets[:-1] + self._head_bytes + before
        sizes = self._sizes[:, number].copy()
        rows = list(faults)
        begins[rows] = sizes[rows] = 0
        return begins, sizes

    def heads(self, begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[bytes]:
        """Return the first bytes of arrays."""
        some = np.minimum(sizes, _MOST_HEAD)
        content = self._gather(begins, some).tobytes()
        ends = offsets_of(some).tolist()
        return [content[begin:end] for begin, end in pairwise(ends)]
