"""Numbers in columns of text, by the rule of casts.

A text without point and exponent is an integer, and exact in whatever it becomes; any other
number is the float nearest to the text, rounded once. ``docs/numbers.md`` has the table.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.casts import element_type
from sweephand.corpus.columns import ColumnData

# Of floats narrower than float64: digits to base 2, and the exponent of the least normal one as
# frexp has it.
_PRECISIONS = {"float32": (24, -125), "float16": (11, -13), "bfloat16": (8, -125)}

_SHORT = ("float16", "bfloat16")

_Fault = _core.formats.CellFault
_NONE = 0
_EMPTY, _WORD, _SHAPE = _Fault.empty.value, _Fault.word.value, _Fault.shape.value
_RANGE = _Fault.range.value
_REASONS = {
    _EMPTY: "is empty: fill it, drop its row, or pass over it by max_errors",
    _WORD: "is {text}, which is no number; dtype='bool' takes it",
    _SHAPE: "is {text}, which is no {dtype}; dtype=object takes any text",
    _Fault.decimal.value: "is {text}, which is no integer",
    _RANGE: "is {text}, which does not fit {dtype}; dtype=object takes any text",
    _Fault.inexact.value: "is {text}, an integer that {dtype} cannot hold",
    _Fault.no_flag.value: "is {text}, which is neither true or 1 nor false or 0",
}
_MOST_SHOWN = 40  # bytes of a text


def read_numbers(texts: ColumnData, dtype: np.dtype[Any]) -> tuple[ColumnData, dict[int, str]]:
    """Return texts as numbers, and the faults by text.

    Numbers are zero where a text is wrong, and a fault is the end of a sentence. Floats of 16
    bits come as float64, and are rounded when they are delivered.
    """
    values, faults = _read(texts, dtype)
    wrong = {}
    for row in np.flatnonzero(faults).tolist():
        reason = _REASONS[int(faults[row])]
        text = ascii(_text(texts, row)[:_MOST_SHOWN].decode(errors="replace"))
        wrong[row] = reason.format(text=text, dtype=dtype.name)
    if values.dtype == np.float64:
        values = round_once(values, dtype, lambda row: _text(texts, row).decode().strip())
    return ColumnData(values, values.dtype, (), len(values)), wrong


def guess_dtype(texts: ColumnData) -> str:
    """Return the dtype of texts that are all numbers, else "bytes"; empty ones are ignored.

    Integers are int64, or uint64 if only that has all of them; those that neither has are
    errors when they are read, and never rounded.
    """
    signed = _read(texts, np.dtype("int64"))[1]
    if (signed == _EMPTY).all():
        return "bytes"
    if np.isin(signed, (_NONE, _EMPTY, _RANGE)).all():
        unsigned = _read(texts, np.dtype("uint64"))[1]
        fits = np.isin(unsigned, (_NONE, _EMPTY)).all() and (signed == _RANGE).any()
        return "uint64" if fits else "int64"
    if not np.isin(signed, (_WORD, _SHAPE)).any():
        return "float64"
    return "bool" if np.isin(signed, (_EMPTY, _WORD)).all() else "bytes"


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Return True for floats that a float64 is rounded to."""
    return dtype.name in _PRECISIONS


def round_once(
    values: NDArray[np.float64], dtype: np.dtype[Any], text_at: Callable[[int], str | Decimal]
) -> NDArray[np.float64]:
    """Return floats that become those of a narrower dtype that are nearest to their texts.

    A float halfway between two neighbours goes to the side where its text is.
    """
    if not is_narrow(dtype):
        return values
    digits, least = _PRECISIONS[dtype.name]
    finite = np.where(np.isfinite(values), values, 0.0)
    exponents = np.maximum(np.frexp(finite)[1], least)
    halves = np.ldexp(np.abs(finite), digits + 1 - exponents)
    is_halfway = halves % 2 == 1
    if not is_halfway.any():
        return values
    rounded = values.copy()
    flat = rounded.reshape(-1)
    for place in np.flatnonzero(is_halfway).tolist():
        exact, number = Decimal(text_at(place)), Decimal(float(flat[place]))
        if exact != number:
            flat[place] = np.nextafter(flat[place], np.inf if exact > number else -np.inf)
    return rounded


def _read(texts: ColumnData, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Return numbers, and the fault of every text."""
    assert texts.values is not None
    assert texts.element_offsets is not None
    stored = np.dtype("float64") if dtype.name in _SHORT else dtype
    values, faults = _core.formats.read_text_numbers(
        texts.values, texts.element_offsets, element_type(dtype)
    )
    return values.view(stored), faults


def _text(texts: ColumnData, row: int) -> bytes:
    assert texts.values is not None
    assert texts.element_offsets is not None
    begin, end = texts.element_offsets[row : row + 2]
    return texts.values[begin:end].tobytes()
