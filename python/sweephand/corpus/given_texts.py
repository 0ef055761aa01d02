"""Texts and nulls in data that users hand in, whatever holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sweephand.corpus.casts import unmasked

HOW_TO_FILL = "fill it (fillna), or drop its row (dropna)"
IS_NULL = (
    "is null, or has a null in it: fill it (fillna), drop its row (dropna), or pass over it by "
    "max_errors"
)

_TEXTS = "SUT"  # kinds of dtypes: bytes and texts of a fixed width, and texts of any
NULLS = {"NoneType", "NAType", "NaTType"}  # names of the types of nulls


def listed(what: str, data: Any) -> Any:
    """Return an array of texts or of Python objects as lists; anything else as it is.

    Zeros that pad a text to the width of its dtype do not belong to it.
    """
    if isinstance(data, np.ndarray) and data.dtype.kind in f"{_TEXTS}O" and data.itemsize:
        array: Any = unmasked(what, data)
        return array.tolist()
    return data


def is_text_array(data: object) -> bool:
    """Return True if data are an array of texts."""
    return isinstance(data, np.ndarray) and data.dtype.kind in _TEXTS and data.itemsize > 0


def is_null(value: object) -> bool:
    """Return True for None and for the null values of pandas."""
    return type(value).__name__ in NULLS


def check_nulls(what: str, data: Any) -> None:
    """Refuse a column of Arrow, polars or pandas with nulls; NaN of floats is a value."""
    if _count_nulls(data):
        raise ValueError(
            f"{what} has nulls, which have no value: fill or drop them (fillna, dropna)"
        )


def to_bytes(what: str, samples: Sequence[object]) -> list[bytes]:
    """Return texts as bytes."""
    encoded = []
    for number, sample in enumerate(samples):
        if isinstance(sample, str):
            try:
                encoded.append(sample.encode())
            except UnicodeEncodeError:
                raise ValueError(
                    f"{what}: sample {number} holds half a surrogate pair, which is no text"
                ) from None
        elif isinstance(sample, bytes):
            encoded.append(sample)
        else:
            is_absent = is_null(sample) or sample != sample  # NaN, in columns of pandas
            hint = f"; if it is a null, {HOW_TO_FILL}" if is_absent else ""
            raise TypeError(
                f"{what}: sample {number} is {type(sample).__name__}, where the first is bytes "
                f"or str{hint}"
            )
    return encoded


def _count_nulls(data: Any) -> int:
    nulls: Any = getattr(data, "null_count", None)  # of a column of Arrow or polars
    if nulls is not None:
        return int(nulls() if callable(nulls) else nulls)
    dtype = getattr(data, "dtype", None)
    if type(data).__module__.partition(".")[0] != "pandas" or isinstance(dtype, np.dtype):
        return 0
    stored = getattr(data, "array", data)
    if hasattr(dtype, "pyarrow_dtype"):  # where NaN and null are two things
        return int(stored.__arrow_array__().null_count)
    return int(stored.isna().sum())
