"""Values of parsed JSON as columns.

A number or a text is one sample and a list a sequence of samples; with a shape, innermost lists
of that shape are the samples. A field that a row lacks is an empty sequence there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand import _core
from sweephand.columns import ColumnData, bytes_column, offsets_of

LACKING: Any = object()  # the value of a field that is not there

CoreColumn = tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64] | None, object]

PADDING = _core.JSON_PADDING
"""Zeros behind the text that `read_ordinary` needs."""

_TEXT = np.dtype(object)
_BOOL, _INT, _FLOAT = np.dtype(bool), np.dtype(np.int64), np.dtype(np.float64)


class JsonField:
    """One field of many rows, and what its values were so far.

    Parameters
    ----------
    shape : tuple of int
        Of one sample.
    wanted : dtype-like, optional
        What will be delivered: integers admit no floats, and floats make integers floats.
    dtype : str, optional
        What a scan found: the name of a dtype, or "object" for text.

    Attributes
    ----------
    dtype : numpy.dtype or None
        bool, int64 or float64, whichever holds all values; object for text; None before the
        first value.
    """

    def __init__(
        self, shape: tuple[int, ...], wanted: DTypeLike | None = None, dtype: str | None = None
    ) -> None:
        self.shape = shape
        kind = "" if wanted is None else np.dtype(wanted).kind
        self._is_integer = kind in ("i", "u")
        self.dtype = None if dtype is None else np.dtype(dtype)
        if self.dtype is None and kind == "f":
            self.dtype = _FLOAT

    def convert(self, values: Sequence[Any]) -> tuple[ColumnData, dict[int, str]]:
        """Return the values of some rows as a column of sequences.

        Parameters
        ----------
        values : sequence
            One per row, as a JSON parser gives them, or `LACKING`.

        Returns
        -------
        column : ColumnData
            Of the dtype that is known now.
        wrong : dict
            Row to what is wrong with it; such a row is empty.
        """
        rows: list[Any] = []
        wrong: dict[int, str] = {}
        for number, value in enumerate(values):
            try:
                rows.append(self._samples(value))
            except ValueError as error:
                wrong[number] = str(error)
                rows.append(())
        offsets = offsets_of([len(row) for row in rows])
        if self.dtype == _TEXT:
            texts = [text for row in rows for text in row]
            content = np.frombuffer(b"".join(texts), np.uint8)
            begins = offsets_of([len(text) for text in texts])
            return bytes_column(content, begins, offsets), wrong
        dtype = self.dtype or _FLOAT
        blank = np.empty((0, *self.shape), dtype)
        numbers = np.concatenate([blank, *(row for row in rows if len(row))]).astype(dtype)
        return ColumnData(numbers, dtype, self.shape, len(numbers), offsets), wrong

    def adopt(self, found: CoreColumn) -> ColumnData:
        """Return what the core read of ordinary rows as `convert` would.

        Raises
        ------
        ValueError
            If there is something that does not go with what was there before.
        """
        values, offsets, begins = found[:3]
        if begins is not None:
            self._learn(_TEXT)
            return bytes_column(values.view(np.uint8), begins, offsets)
        if len(values):
            self._learn(values.dtype)
        if self.dtype == _TEXT:
            return bytes_column(np.empty(0, np.uint8), np.zeros(1, np.int64), offsets)
        dtype = self.dtype or _FLOAT
        numbers = values.astype(dtype, copy=False)
        return ColumnData(numbers, dtype, self.shape, len(numbers), offsets)

    def _samples(self, value: Any) -> Sequence[bytes] | NDArray[Any]:
        """Return the samples of one row, and learn their dtype."""
        if value is LACKING or value == []:
            return ()
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list) and isinstance(texts[0], str):
            if not all(isinstance(text, str) for text in texts):
                raise ValueError("holds text and other things")
            if self.shape:
                raise ValueError(f"holds text, which has no shape {self.shape}")
            try:
                encoded = [text.encode() for text in texts]
            except UnicodeEncodeError:
                raise ValueError("holds text with half a surrogate pair") from None
            self._learn(_TEXT)
            return encoded
        try:
            array = np.array(value)
        except ValueError:
            raise ValueError("holds lists that differ in length") from None
        if array.dtype.kind not in "biuf":
            raise ValueError("holds null, an object, or a number of more than 64 bits")
        if array.dtype.kind == "u" or (array.dtype.kind == "f" and not _has_float(value)):
            raise ValueError("holds an integer that does not fit 64 bits")
        if array.ndim == len(self.shape):
            array = array[None]
        if array.shape[1:] != self.shape:
            raise ValueError(f"holds samples of shape {array.shape[1:]}, not {self.shape}")
        self._learn(array.dtype)
        return array

    def _learn(self, dtype: np.dtype[Any]) -> None:
        if self._is_integer and dtype.kind == "f":
            raise ValueError("holds a float where integers are wanted")
        if self.dtype is None:
            self.dtype = dtype
        elif (self.dtype == _TEXT) != (dtype == _TEXT):
            raise ValueError("holds text in some rows and numbers in others")
        elif dtype != _TEXT:
            self.dtype = np.promote_types(self.dtype, dtype)


def read_ordinary(
    fields: Sequence[JsonField], keys: Sequence[str], padded: NDArray[np.uint8]
) -> list[ColumnData] | None:
    """Return the fields of lines that hold nothing out of the ordinary; else None.

    Parameters
    ----------
    fields : sequence of JsonField
    keys : sequence of str
        Of each field.
    padded : ndarray of uint8
        Whole lines, and `PADDING` zeros.
    """
    if any(field.shape for field in fields) or len(set(keys)) < len(keys):
        return None
    found = _core.read_json_lines(list(keys), padded)
    if found is None:
        return None
    try:
        return [field.adopt(one) for field, one in zip(fields, found, strict=True)]
    except ValueError:
        return None


def _has_float(value: Any) -> bool:
    if isinstance(value, list):
        return any(_has_float(item) for item in value)
    return isinstance(value, float)
