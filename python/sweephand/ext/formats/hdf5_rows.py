"""HDF5 rows of any length: lengths that the file contradicts are refused before they are read.

A row is stored as ``length (4 bytes) | address of its heap | number in that heap``. The library
believes the length: one flipped bit, and it converts 2^32 elements of nothing for minutes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.extend import OptionalModule, SourceFile

h5py = OptionalModule("h5py", "hdf5")


class RowsOfAnyLength:
    """A data set of rows of any length, or of texts."""

    def __init__(self, array: Any, file: SourceFile) -> None:
        self._array = array
        self._file = file
        self._width = array.id.get_type().get_size()  # of a row, as it is stored
        base = h5py.check_vlen_dtype(array.dtype)
        self._longest = file.size // (1 if base is None else base.itemsize)

    def __getattr__(self, name: str) -> Any:
        """Return what the data set has."""
        return getattr(self._array, name)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._array)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Return a selection of the rows."""
        begin, end, _ = rows.indices(len(self))
        for lengths in self._lengths(begin, end):
            if lengths.size and (longest := int(lengths.max())) > self._longest:
                raise ValueError(f"a row of {longest} elements is longer than the file")
        found: NDArray[Any] = self._array[rows]
        return found

    def _lengths(self, begin: int, end: int) -> list[NDArray[np.uint32]]:
        """Return the lengths of rows, or of more; HDF5 has no filters of such rows."""
        array = self._array
        if array.file.userblock_size:  # places may count from its end
            return []
        if array.chunks is None:
            offset = array.id.get_offset()
            if offset is None:  # in the header, where little fits
                return []
            row = self._width * math.prod(array.shape[1:])
            stored = self._file.fetch(offset + begin * row, max(0, end - begin) * row)
            return [self._first_words(stored.tobytes())]
        found: list[NDArray[np.uint32]] = []

        def note(chunk: Any) -> None:
            first = chunk.chunk_offset[0]
            if first < end and first + array.chunks[0] > begin:
                stored = self._file.fetch(chunk.byte_offset, chunk.size).tobytes()
                found.append(self._first_words(stored))

        array.id.chunk_iter(note)
        return found

    def _first_words(self, stored: bytes) -> NDArray[np.uint32]:
        rows = np.frombuffer(stored, np.uint8)
        rows = rows[: len(rows) // self._width * self._width].reshape(-1, self._width)
        return np.ascontiguousarray(rows[:, :4]).view("<u4").reshape(-1)
