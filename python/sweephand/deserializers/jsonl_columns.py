"""Values of parsed JSON as columns.

A number or a text is one sample and a list a sequence of samples; with a shape, innermost lists
of that shape are the samples. A field that a row lacks is an empty sequence there. Objects, and
lists that hold some, are one sample each, whatever they are; one that a row lacks is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand import _core
from sweephand.corpus.casts import cast, element_type, kinds_in, leaves
from sweephand.corpus.columns import ColumnData, bytes_column, column_of_bytes, offsets_of
from sweephand.corpus.given_texts import IS_NULL
from sweephand.corpus.objects import LACKING, OBJECT, Unusable, column_of_values, is_nested
from sweephand.deserializers.units.text_numbers import PRECISIONS, halfway, nudged

REPEATED = Unusable("is there twice")

CoreColumn = tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64] | None, object]

PADDING = _core.formats.JSON_PADDING
"""Zeros after the text that `read_ordinary` needs."""

_TEXT = np.dtype(object)
_BOOL, _INT, _FLOAT = np.dtype(bool), np.dtype(np.int64), np.dtype(np.float64)


class JsonField:
    """One field of many rows, and the types of the values seen.

    Parameters
    ----------
    shape : tuple of int
        Of one sample.
    wanted : dtype-like, optional
        What will be delivered: integers admit no floats, and floats make integers floats.
    dtype : str, optional
        What a scan found: the name of a dtype, or "object" for text.
    is_object : bool
        Values are objects.

    Attributes
    ----------
    dtype : numpy.dtype or None
        bool, int64 or float64, whichever holds all values; object for text and objects; None
        before the first value.
    is_object : bool
        Values are objects: as it is wanted, or as the first value that is no empty list shows.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        wanted: DTypeLike | None = None,
        dtype: str | None = None,
        *,
        is_object: bool = False,
    ) -> None:
        self.is_object = is_object or (wanted is not None and np.dtype(wanted) == OBJECT)
        if self.is_object:
            wanted, dtype = None, OBJECT.name
        self._num_rows = 0  # that were converted before
        self.shape = shape
        self.wanted = None if wanted is None else np.dtype(wanted)
        self.dtype = None if dtype is None else np.dtype(dtype)
        self._float: np.dtype[Any] = _FLOAT  # the type in which floats are delivered
        self._precision: tuple[int, int] | None = None
        if self.wanted is not None and self.wanted.name in PRECISIONS:
            self._float = self.wanted
            self._precision = PRECISIONS[self.wanted.name]
        if self.wanted is not None and self.wanted == self._float:
            self.dtype = self.dtype or _FLOAT

    def convert(
        self, values: Sequence[Any], parse_exactly: Callable[[int], Any] | None = None
    ) -> tuple[ColumnData, dict[int, str]]:
        """Return the values of rows as a column of sequences."""
        if self._are_objects(values):
            return column_of_values(values)
        self._num_rows += len(values)
        rows: list[Any] = []
        wrong: dict[int, str] = {}
        for number, value in enumerate(values):
            try:
                row = self._samples(value)
                if parse_exactly is not None and self._is_halfway(row):
                    row = self._nudge(np.asarray(row), parse_exactly(number))
                rows.append(row)
            except ValueError as error:
                wrong[number] = str(error)
                rows.append(())
        if self.dtype == _FLOAT:
            self._check_integers(rows, wrong)
        offsets = offsets_of([len(row) for row in rows])
        if self.dtype == _TEXT:
            return column_of_bytes([text for row in rows for text in row], offsets), wrong
        dtype = self.dtype or _FLOAT
        blank = np.empty((0, *self.shape), dtype)
        numbers = np.concatenate([blank, *(row for row in rows if len(row))]).astype(dtype)
        return ColumnData(numbers, dtype, self.shape, len(numbers), offsets), wrong

    def _are_objects(self, values: Sequence[Any]) -> bool:
        """Return True if values are objects, by their known type or by the first of them."""
        if self.dtype is None and not (self.shape or self._num_rows):
            held = (one for one in values if one is not LACKING and one != [])
            self.is_object = is_nested(next(held, None))
            self.dtype = _TEXT if self.is_object else None
        return self.is_object

    def adopt(self, found: CoreColumn) -> ColumnData:
        """Return the core's values of ordinary rows in the form of `convert`."""
        values, offsets, begins = found[:3]
        if begins is not None:
            self._learn(_TEXT)
            return bytes_column(values.view(np.uint8), begins, offsets)
        if len(values):
            self._learn(values.dtype)
        if self.dtype == _TEXT:
            return column_of_bytes([], offsets)
        dtype = self.dtype or _FLOAT
        numbers = cast(values, dtype) if len(values) else np.empty(0, dtype)
        return ColumnData(numbers, dtype, self.shape, len(numbers), offsets)

    def _samples(self, value: Any) -> Sequence[bytes] | NDArray[Any]:
        """Return the samples of one row, and learn their dtype."""
        if value is LACKING or value == []:
            return ()
        if isinstance(value, Unusable):
            raise ValueError(value.reason)
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list) and isinstance(texts[0], str):
            if None in texts:
                raise ValueError(IS_NULL)
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
        if array.dtype.kind == "O" and None in leaves([value]):
            raise ValueError(IS_NULL)
        if array.dtype.kind not in "biuf":
            if is_nested(value):
                raise ValueError(
                    "holds an object, and others do not; declare StreamDef(dtype=object), for "
                    "Python objects"
                )
            raise ValueError("holds null, or a number of more than 64 bits, among others")
        kinds = kinds_in("the list", value if isinstance(value, list) else [value])
        if array.dtype.kind == "u" or (array.dtype.kind == "f" and "f" not in kinds):
            raise ValueError("holds an integer that does not fit 64 bits")
        if "b" in kinds and len(kinds) > 1:
            raise ValueError("holds true or false among numbers")
        if "f" in kinds and not np.isfinite(array).all():
            raise ValueError("holds a number that is beyond float64")
        if "i" in kinds and "f" in kinds:
            self._check_integers_in(value)
        if array.ndim == len(self.shape):
            array = array[None]
        if array.shape[1:] != self.shape:
            raise ValueError(f"holds samples of shape {array.shape[1:]}, not {self.shape}")
        self._learn(array.dtype)
        return array

    def _check_integers_in(self, value: list[Any]) -> None:
        integers = [one for one in leaves(value) if isinstance(one, int)]
        try:
            cast(np.array(integers, np.int64), self._float)
        except (ValueError, OverflowError):
            raise ValueError(f"holds an integer that {self._float} cannot hold") from None

    def _check_integers(self, rows: list[Any], wrong: dict[int, str]) -> None:
        """Empty the rows of integers that the floats of the column cannot hold."""
        for number, row in enumerate(rows):
            if isinstance(row, np.ndarray) and row.dtype == _INT:
                try:
                    cast(row, self._float)
                except ValueError:
                    wrong[number] = f"holds an integer that {self._float} cannot hold"
                    rows[number] = ()

    def _is_halfway(self, row: Any) -> bool:
        if self._precision is None or not isinstance(row, np.ndarray) or row.dtype != _FLOAT:
            return False
        return bool(halfway(row, *self._precision).any())

    def _nudge(self, row: NDArray[Any], exact: Any) -> NDArray[Any]:
        """Return floats that are on the same side of those halfway as their texts are."""
        assert self._precision is not None
        numbers = row.copy()
        flat = numbers.reshape(-1)
        texts = list(leaves(exact if isinstance(exact, list) else [exact]))
        for place in np.flatnonzero(halfway(flat, *self._precision)).tolist():
            flat[place] = nudged(float(flat[place]), texts[place])
        return numbers

    def _learn(self, dtype: np.dtype[Any]) -> None:
        if self.wanted is not None and dtype != _TEXT:
            if self.wanted.kind in "iu" and dtype.kind == "f":
                raise ValueError("holds a float where integers are wanted")
            if (self.wanted == _BOOL) != (dtype == _BOOL):
                held, wanted = _words(dtype), _words(self.wanted)
                raise ValueError(f"holds {held} where {wanted} are wanted")
        known = self.dtype
        if known is None:
            self.dtype = dtype
        elif _words(known) != _words(dtype):
            raise ValueError(f"holds {_words(dtype)}, and {_words(known)} in other rows")
        elif dtype != _TEXT:
            self.dtype = np.promote_types(known, dtype)


def _words(dtype: np.dtype[Any]) -> str:
    return {_TEXT: "text", _BOOL: "true or false"}.get(dtype, "numbers")


def read_ordinary(
    fields: Sequence[JsonField], keys: Sequence[str], padded: NDArray[np.uint8]
) -> list[ColumnData] | None:
    """Return the fields of lines that hold nothing out of the ordinary; else None.

    `padded` is whole lines, and `PADDING` zeros.
    """
    if any(field.shape or field.is_object for field in fields) or len(set(keys)) < len(keys):
        return None
    wanted = [
        _core.formats.JsonKey(key, element_type(field.wanted or _TEXT))
        for key, field in zip(keys, fields, strict=True)
    ]
    found = _core.formats.read_json_lines(wanted, padded)
    if found is None:
        return None
    try:
        return [field.adopt(one) for field, one in zip(fields, found, strict=True)]
    except ValueError:
        return None
