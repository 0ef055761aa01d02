"""Elements of stored arrays as columns: numbers, texts, and rows of any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand.extend import ColumnData, SampleType, column_of_bytes, offsets_of

TEXT = SampleType("bytes")

_LARGEST = 8  # bytes of a number
_LOOKED_AT = 64  # rows, to know about how long texts are


class StoredArray(Protocol):
    """An array that is read by slices of its first axis, as h5py and zarr have them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""

    @property
    def dtype(self) -> Any:
        """The dtype of the values that are read."""

    @property
    def chunks(self) -> Sequence[int] | None:
        """The extents of its chunks; None if it has none."""

    def __getitem__(self, rows: slice) -> Any:
        """Return a selection of the rows."""


def element_of(dtype: np.dtype[Any]) -> SampleType:
    """Return the type of an element: a number in native order, or a text of fixed width.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    if dtype.kind in "SUT":
        return TEXT
    native = dtype.newbyteorder("=")
    if dtype.kind not in "biuf" or dtype.itemsize > _LARGEST:
        name = "records" if dtype.names else str(dtype)
        raise ValueError(f"it holds {name:.80}, neither numbers nor texts")
    return SampleType(native.name)


def kind_of(array: StoredArray, element: SampleType) -> SampleType:
    """Return the sample type of an array whose rows are sequences.

    Parameters
    ----------
    element : SampleType
        What an element is; a ragged one is a row of any length.

    Raises
    ------
    ValueError
        If it has no rows, or several texts in one.
    """
    shape = tuple(map(int, array.shape))
    if not shape:
        raise ValueError("it is a single value")
    if 0 in shape[1:]:
        raise ValueError(f"its rows have no elements: it is of shape {shape}")
    if len(shape) > 1 and (element.dtype == "bytes" or element.is_ragged):
        raise ValueError(f"it has several texts or runs of numbers in a row: shape {shape}")
    return replace(element, shape=shape[1:])


def column_of(values: NDArray[Any], kind: SampleType) -> ColumnData:
    """Return rows that were read, each a sequence.

    Raises
    ------
    ValueError
        If they are not of that kind.
    """
    if kind.dtype == "bytes":
        return column_of_bytes([_to_bytes(one) for one in values.tolist()])
    dtype = np.dtype(kind.dtype)
    sample_offsets = None
    if values.dtype.hasobject:
        rows = [np.asarray(one) for one in values.tolist()]
        values = np.concatenate([np.empty(0, dtype), *rows])
        sample_offsets = offsets_of([len(one) for one in rows])
    if values.shape[1:] != kind.shape or values.dtype.newbyteorder("=") != dtype:
        raise ValueError(f"it has rows of {values.dtype} of shape {values.shape[1:]}")
    values = np.ascontiguousarray(values, dtype)
    return ColumnData(values, dtype, kind.shape, len(values), sample_offsets)


def row_bytes(array: StoredArray, kind: SampleType) -> int:
    """Return the bytes of a row in memory, about that of rows of any length."""
    if kind.dtype == "bytes" or kind.is_ragged:
        column = column_of(np.asarray(array[:_LOOKED_AT]), kind)
        return 8 + column.num_bytes // max(1, column.num_sequences)
    return kind.sample_bytes


def _to_bytes(one: object) -> bytes:
    if isinstance(one, str):
        return one.encode(errors="surrogateescape")
    if isinstance(one, bytes):
        return one
    if isinstance(one, np.ndarray) and one.dtype.kind in "biu" and one.itemsize == 1:
        return one.tobytes()
    raise ValueError(f"it holds {type(one).__name__}, where a text is due")
