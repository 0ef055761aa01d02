"""Arrays as the core takes them, and the finite check: a pass over the gradients of a step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sweephand import _core

Array: TypeAlias = NDArray[Any]
Counts: TypeAlias = Sequence[float] | NDArray[np.uint64]

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


class Cause(IntEnum):
    """Why a step is applied or skipped; the largest over all workers decides.

    True if finite gradients are an outlier is decided after that.
    """

    OK = 0
    INF = 1
    NAN = 2
    NAN_LOSS = 3
    OUTLIER = 4


@dataclass(eq=False)
class Findings:
    """Findings in the unscaled gradients of one step, with one entry for each gradient."""

    names: Sequence[str]  # the parameters' names
    num_elements: int  # elements of all gradients
    nan: Counts  # how many elements are NaN
    inf: Counts
    # how many elements are too small: zero or subnormal as a float16 before unscaling, or zero
    # after it
    small: Counts
    norms: Sequence[float] | NDArray[np.float64]  # Euclidean

    @property
    def cause(self) -> Cause:
        """The worst that was found."""
        if _is_there_any(self.nan):
            return Cause.NAN
        return Cause.INF if _is_there_any(self.inf) else Cause.OK

    @property
    def gradient_norm(self) -> float:
        """The Euclidean norm of all gradients together."""
        return math.hypot(*self.norms)

    @property
    def num_nan(self) -> int:
        """The number of elements that are NaN."""
        return int(np.sum(self.nan))

    @property
    def num_inf(self) -> int:
        """The number of infinite elements."""
        return int(np.sum(self.inf))

    @property
    def underflow(self) -> float:
        """The share of elements that were too small; 0 if there are none at all."""
        return float(np.sum(self.small)) / max(self.num_elements, 1)

    @property
    def bad_parameters(self) -> tuple[str, ...]:
        """The first few parameters whose gradient is not finite."""
        found = zip(self.names, self.nan, self.inf, strict=True)
        return tuple(name for name, nan, inf in found if nan or inf)[:5]


def check_gradients(
    names: Sequence[str],
    gradients: Sequence[Array],
    scale: float,
    *,
    in_place: bool,
    num_threads: int = 1,
) -> Findings:
    """Check gradients that carry a loss scale, and divide it out if asked to.

    The gradients are as `core_array` returns them, the scale is positive and finite, and the
    result does not depend on the number of threads. ValueError is raised if two that are to be
    divided share memory: it would be divided twice.
    """
    tensors = _core.train.Tensors(gradients)
    if in_place and (shared := tensors.find_shared()) is not None:
        one, other = (names[i] for i in shared)
        raise ValueError(
            f"the gradients of {one} and {other} share memory, which would be divided twice: "
            "give a copy for one of them"
        )
    return check_tensors(names, tensors, scale, in_place=in_place, num_threads=num_threads)


def check_tensors(
    names: Sequence[str],
    tensors: _core.train.Tensors,
    scale: float,
    *,
    in_place: bool,
    num_threads: int,
) -> Findings:
    """Do the same; of those that are divided no two share memory."""
    pass_over = _core.train.unscale if in_place else _core.train.examine
    counts = pass_over(tensors, scale, num_threads)
    return Findings(names, tensors.num_elements, *counts)


def _is_there_any(counts: Counts) -> bool:
    # By NumPy this slows down the step that follows by a tenth: wide instructions do so.
    return any(counts.tolist() if isinstance(counts, np.ndarray) else counts)
