"""Opened groups of arrays, and which of their arrays are streams.

::

    group | label (n, 4) | tokens (samples,) | tokens_offsets (n + 1,) | train/x (n, 28, 28)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import StreamDef
from sweephand.ext.formats.array_elements import StoredArray, kind_of, row_bytes
from sweephand.extend import SampleType, check_offsets

_OFFSETS = "_offsets"
_MAX_NAMED = 20

Offsets = str | Mapping[str, str]
"""The array that says where sequences begin: of all that have as many samples, or of each."""

Places = NDArray[np.int64]
"""Byte where a piece begins, and its size in bytes; shape (pieces, 2)."""


class ArrayGroup(ABC):
    """A group that is open: a file of HDF5, a store of Zarr."""

    @abstractmethod
    def get(self, path: str) -> StoredArray | None:
        """Return the array at a path, or None."""

    @abstractmethod
    def walk(self) -> Iterator[tuple[str, StoredArray]]:
        """Iterate over all arrays, by their paths, in an order that does not change."""

    @abstractmethod
    def element(self, array: StoredArray, definition: StreamDef) -> SampleType:
        """Return the type of an element, ragged if it is a run of numbers."""

    def places(self, array: StoredArray) -> Places | None:
        """Return the place of an array stored as bare numbers; None for any other."""
        return None

    def links(self) -> Iterator[str]:
        """Iterate over the paths of links that `walk` does not follow."""
        yield from ()

    def array(self, path: str) -> StoredArray:
        """Return the array that has a path."""
        found = self.get(path)
        if found is not None:
            return found
        paths = [known for known, _ in self.walk()]
        more = ", ..." if len(paths) > _MAX_NAMED else ""
        known_paths = (
            f"there are: {', '.join(paths[:_MAX_NAMED])}{more}" if paths else "there is none"
        )
        raise LookupError(f"there is no array {path!r}, {known_paths}")


@dataclass(frozen=True)
class StoredStream:
    """An array that is a stream."""

    array: StoredArray
    rows: SampleType  # what its rows are
    # the row that each sequence begins with, and the end; None: each row is one
    begins: NDArray[np.int64] | None = None

    @property
    def kind(self) -> SampleType:
        """The type of its sequences."""
        return self.rows if self.begins is None else replace(self.rows, is_ragged=True)

    @property
    def num_rows(self) -> int:
        """Rows of the array."""
        return int(self.array.shape[0])

    @property
    def num_sequences(self) -> int:
        """Sequences that the rows are."""
        return self.num_rows if self.begins is None else len(self.begins) - 1

    def starts(self, least: int) -> NDArray[np.int64]:
        """Return the sequences that begin with a chunk, or with several of `least` bytes."""
        rows = int(self.array.chunks[0]) if self.array.chunks else 1
        chunk_bytes = max(1, rows * row_bytes(self.array, self.rows))
        found = np.arange(0, self.num_rows, rows * max(1, -(-least // chunk_bytes)))
        return found if self.begins is None else np.searchsorted(self.begins[:-1], found)


def find_stream(
    group: ArrayGroup, path: str, definition: StreamDef, offsets: Offsets | None
) -> StoredStream:
    """Return an array as a stream."""
    array = group.array(path)
    rows = kind_of(array, group.element(array, definition))
    bounds = offsets_path(group, path, offsets)
    if bounds is None:
        return StoredStream(array, rows)
    begins = _as_begins(group.array(bounds)[:], bounds)
    num_rows = int(array.shape[0])
    if isinstance(offsets, str) and num_rows == len(begins) - 1:
        if begins[-1] != num_rows:
            return StoredStream(array, rows)
        if bool((np.diff(begins) != 1).any()):
            raise ValueError(
                f"its {num_rows} rows may be samples or sequences: say which arrays are cut, "
                f"by offsets={{name: {bounds!r}}}"
            )
    if rows.is_ragged:
        raise ValueError(f"rows of any length cannot be cut by offsets, here {bounds!r}")
    try:
        check_offsets(begins, num_rows)
    except ValueError as error:
        raise ValueError(f"{bounds!r} do not fit it: {error}") from None
    return StoredStream(array, rows, begins)


def find_streams(
    group: ArrayGroup, offsets: Offsets | None
) -> tuple[list[str], dict[str, str]]:
    """Return the arrays that have as many sequences as the largest, and why the rest do not.

    Single values that describe data, and offsets, are in neither; links and single values are
    refused where there is nothing else.
    """
    found: dict[str, StoredStream] = {}
    refused: dict[str, str] = {}
    every = dict(group.walk())
    paths = [path for path, array in every.items() if array.shape]
    if not paths:
        refused |= dict.fromkeys(every, "it is a single value, and rows are sequences")
        paths = [*group.links()]
    bounds = {offsets_path(group, path, offsets) for path in paths}
    for path in paths:
        if path not in bounds:
            try:
                found[path] = find_stream(group, path, StreamDef(), offsets)
            except (LookupError, ValueError) as error:
                refused[path] = str(error)
    if not found:
        return [], refused
    sizes = {path: one.num_rows * row_bytes(one.array, one.rows) for path, one in found.items()}
    largest = max(sizes, key=lambda path: sizes[path])
    count = found[largest].num_sequences
    for path, one in found.items():
        if one.num_sequences != count:
            refused[path] = f"has {one.num_sequences} rows, {largest!r} has {count}"
    return [path for path in found if path not in refused], refused


def offsets_path(group: ArrayGroup, path: str, offsets: Offsets | None) -> str | None:
    """Return the path of the offsets that an array may have."""
    if offsets is None:
        return None if group.get(path + _OFFSETS) is None else path + _OFFSETS
    return offsets if isinstance(offsets, str) else offsets.get(path)


def _as_begins(values: NDArray[Any], path: str) -> NDArray[np.int64]:
    if values.ndim != 1 or values.dtype.kind not in "iu" or not len(values):
        raise ValueError(
            f"{path!r} must be one row of integers, where each sequence begins and the end, "
            f"got {values.dtype} of shape {values.shape}"
        )
    return np.ascontiguousarray(values, np.int64)
