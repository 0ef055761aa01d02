"""Arrays in the form that the core computes with."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

# The dtypes the core computes with, but for the bfloat16 of ml_dtypes, which has no constant.
NATIVE = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.float64))


def core_array(array: object, name: str) -> Array:
    """Return an array as the core takes it: contiguous, bfloat16 as its bits in uint16.

    It is the same memory if that is contiguous, else a copy. TypeError is raised unless it is
    an array of float16, bfloat16, float32 or float64 in the machine's byte order.
    """
    if not isinstance(array, np.ndarray | np.generic):
        raise TypeError(f"{name} must be an array, got {type(array).__name__}")
    if array.dtype not in NATIVE and array.dtype.name != "bfloat16":
        raise TypeError(
            f"{name} must be of float16, bfloat16, float32 or float64, got {array.dtype.str}"
        )
    contiguous = np.ascontiguousarray(array)
    return contiguous if array.dtype in NATIVE else contiguous.view(np.uint16)
