"""Numbers and counts as people read them, and how much of a minibatch is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch


def in_count(number: int) -> str:
    """Return a count with its thousands set off."""
    return f"{number:,}"


def in_number(value: Any) -> str:
    """Return an element of an array in few characters.

    Examples
    --------
    >>> in_number(np.float32(0.1)), in_number(np.uint8(7)), in_number(np.bool_(True))
    ('0.1', '7', '1')
    """
    kind = np.asarray(value).dtype.kind
    if kind in "iub":
        return str(int(value))
    return f"{value:.4g}" if kind == "c" else f"{float(value):.4g}"


def as_floats(values: Any) -> NDArray[np.float64]:
    """Return numbers of any type as floats, complex numbers by their absolute value."""
    array = np.asarray(values)
    return np.abs(array) if array.dtype.kind == "c" else array.astype(np.float64)


def spread_of(values: Any) -> str:
    """Describe numbers by their least, mean and greatest, and count NaN and infinity."""
    floats = as_floats(values)
    finite = floats[np.isfinite(floats)]
    if not finite.size:
        return "no finite number" if floats.size else "empty"
    shown = f"from {finite.min():.4g} to {finite.max():.4g}, mean {finite.mean():.4g}"
    odd = floats.size - finite.size
    return f"{shown}; {in_count(odd)} not finite" if odd else shown


def and_more(shown: int, there: int, things: str) -> str | None:
    """Return a note on those that are not shown; None if all are."""
    return f"and {in_count(there - shown)} more {things}" if there > shown else None


def first_rows(minibatch: Minibatch, most: int) -> Minibatch:
    """Return the first rows of a minibatch, over the same memory."""
    return minibatch.rows(0, most) if minibatch.num_rows > most else minibatch
