"""Copies of values that functions of the user return, made before the next call.

A function may use a buffer again: what it returned before would then change. So what it returns
is copied at once, unless counts of references show that it has no other holder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sweephand import _core
from sweephand.corpus.casts import as_array

_IMMUTABLE = {type(None), bool, int, float, complex, str, bytes}


def own_result(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, and return its result, of which it keeps nothing that it could change.

    What it was given and gives back is not copied.
    """
    result, is_own = _core.read.own_call(function, arguments)
    if is_own:
        return result
    for one in arguments:  # a million calls come here: `any` would double the time
        if result is one:
            return result
    return copied(result)


def copied(value: Any) -> Any:
    """Return a copy of arrays, and of the containers that hold them.

    What has no other way to be copied comes as the array that it is read as.
    """
    kind = type(value)
    if kind is np.ndarray:
        return _copied_array(value)
    if kind in _IMMUTABLE or isinstance(value, np.generic):
        return value.copy() if isinstance(value, np.void) else value
    if isinstance(value, np.ndarray):
        return _copied_array(value)
    if isinstance(value, list | tuple):
        return _copied_list(value)
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


def _copied_array(value: Any) -> Any:
    if not value.dtype.hasobject:
        return value.copy()
    made = np.empty(value.shape, value.dtype)
    for at in np.ndindex(value.shape):
        made[at] = copied(value[at])
    return made


def _copied_list(value: Any) -> Any:
    are_immutable = set(map(type, value)) <= _IMMUTABLE
    if type(value) is tuple and are_immutable:
        return value
    made = list(value) if are_immutable else [copied(one) for one in value]
    if isinstance(value, list):
        return made
    make: Any = getattr(value, "_make", tuple)  # also a tuple of names
    return make(made)
