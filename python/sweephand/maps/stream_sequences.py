"""The samples of consecutive sequences of a stream, cut apart on demand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import offsets_of
from sweephand.corpus.objects import parse_object


class StreamSequences(Sequence[Any]):
    """Consecutive sequences of a stream.

    They pickle as one piece, so that another process gets them by one copy. Objects are made
    when they are asked for, each time anew.
    """

    __slots__ = ("_are_objects", "_offsets", "_values")

    def __init__(self, values: Any, offsets: list[int], *, are_objects: bool = False) -> None:
        self._values = values
        self._offsets = offsets
        self._are_objects = are_objects

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, which: int) -> Any: ...
    @overload
    def __getitem__(self, which: slice) -> StreamSequences: ...
    def __getitem__(self, which: int | slice) -> Any:
        if isinstance(which, slice):
            begin, end, _ = which.indices(len(self))
            return StreamSequences(
                self._values, self._offsets[begin : end + 1], are_objects=self._are_objects
            )
        samples = self._values[self._offsets[which] : self._offsets[which + 1]]
        return _object_of(samples) if self._are_objects else samples

    def as_arrays(self) -> tuple[Any, NDArray[np.int64]]:
        """Return all values, and where each sequence begins in them, and the end."""
        offsets = np.array(self._offsets, np.int64)
        return self._values[offsets[0] : offsets[-1]], offsets - offsets[0]

    def to_list(self) -> list[Any]:
        """Return the samples of every sequence."""
        values, offsets = self._values, self._offsets
        if self._are_objects:
            return [_object_of(values[begin:end]) for begin, end in pairwise(offsets)]
        if isinstance(values, np.ndarray) and len(offsets) > 1:
            begin, end, length = offsets[0], offsets[-1], offsets[1] - offsets[0]
            if length and offsets == list(range(begin, end + 1, length)):  # the quick way
                return list(values[begin:end].reshape(-1, length, *values.shape[1:]))
        return [values[begin:end] for begin, end in pairwise(offsets)]

    def __reduce__(self) -> tuple[Any, ...]:
        begin, end = self._offsets[0], self._offsets[-1]
        values = self._values[begin:end]
        lengths = np.diff(self._offsets)
        if isinstance(values, np.ndarray) and values.dtype.hasobject:
            samples = values.tolist()
            data = np.frombuffer(b"".join(samples), np.uint8)
            sizes = np.fromiter(map(len, samples), np.int64, len(samples))
            return _of_bytes, (data, sizes, lengths, self._are_objects)
        return _of_values, (values, lengths)


def _object_of(samples: Any) -> Any:
    return parse_object(samples[0]) if len(samples) else None


def _of_values(
    values: Any, lengths: NDArray[np.int64], are_objects: bool = False
) -> StreamSequences:
    return StreamSequences(values, offsets_of(lengths).tolist(), are_objects=are_objects)


def _of_bytes(
    data: NDArray[np.uint8],
    sizes: NDArray[np.int64],
    lengths: NDArray[np.int64],
    are_objects: bool,
) -> StreamSequences:
    objects = np.empty(len(sizes), object)
    pieces = StreamSequences(data, offsets_of(sizes).tolist())
    objects[:] = [piece.tobytes() for piece in pieces.to_list()]
    return _of_values(objects, lengths, are_objects)
