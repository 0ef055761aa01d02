"""Copies of values that functions of the user return, made before the next call.

A function may use a buffer again: what it returned before would then change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sweephand.corpus.casts import as_array

_IMMUTABLE = {type(None), bool, int, float, complex, str, bytes}


def own_result(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, and return a copy of its result, which it cannot change any more."""
    return copied(function(*arguments))


def copied(value: Any) -> Any:
    """Return a copy of arrays, and of the containers that hold them.

    What has no other way to be copied comes as the array that it is read as.
    """
    if type(value) in _IMMUTABLE:
        return value
    if isinstance(value, np.ndarray):
        made = value.copy()
        for at in np.ndindex(value.shape) if value.dtype.hasobject else ():
            made[at] = copied(value[at])
        return made
    if isinstance(value, list | tuple):
        parts = value if set(map(type, value)) <= _IMMUTABLE else map(copied, value)
        # A tuple of names is made otherwise than a tuple.
        make = getattr(value, "_make", list if isinstance(value, list) else tuple)
        return make(parts)
    if isinstance(value, Mapping):
        return {name: copied(one) for name, one in value.items()}
    if callable(getattr(value, "detach", None)):  # a tensor
        return value.detach().clone()
    if callable(getattr(value, "copy", None)):  # a matrix, a picture, a series
        return value.copy()
    if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
        return value  # Arrow's data do not change
    try:
        return np.array(as_array("the value", value))
    except (TypeError, ValueError):
        return value  # no samples, which is an error where it is looked at
