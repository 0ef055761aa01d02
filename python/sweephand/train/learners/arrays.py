"""Arrays of the core: parameters that are updated in place, and gradients that are checked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.errors import StateError
from sweephand.train.states import check_keys

Array: TypeAlias = NDArray[Any]
Counts: TypeAlias = Sequence[float] | NDArray[np.uint64]

# The dtypes the core computes with, but for the bfloat16 of ml_dtypes, which has no constant.
NATIVE = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.float64))


def core_array(array: object, name: str) -> Array:
    """Return an array as the core takes it: contiguous, bfloat16 as its bits, or TypeError."""
    if not isinstance(array, np.ndarray | np.generic):
        raise TypeError(f"{name} must be an array, got {type(array).__name__}")
    if array.dtype not in NATIVE and array.dtype.name != "bfloat16":
        raise TypeError(
            f"{name} must be of float16, bfloat16, float32 or float64, got {array.dtype.str}"
        )
    contiguous = np.ascontiguousarray(array)
    return contiguous if array.dtype in NATIVE else contiguous.view(np.uint16)


class Cause(IntEnum):
    """Why a step is applied or skipped; the largest over all workers decides."""

    OK = 0
    INF = 1
    NAN = 2
    NAN_LOSS = 3
    OUTLIER = 4  # which is decided after the others


@dataclass(eq=False)
class Findings:
    """Findings in the unscaled gradients of one step, with one entry for each gradient."""

    names: Sequence[str]  # the parameters' names
    num_elements: int  # elements of all gradients
    nan: Counts  # how many elements are NaN
    inf: Counts
    # zero or subnormal as a float16 before unscaling, or zero after it
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


NO_FINDINGS = Findings((), 0, (), (), (), ())  # no parameter has a gradient


def check_gradients(
    names: Sequence[str],
    gradients: Sequence[Array],
    scale: float,
    *,
    in_place: bool,
    num_threads: int = 1,
) -> Findings:
    """Check gradients of `core_array` that carry a loss scale, and divide it out if asked to.

    ValueError is raised if two that are to be divided share memory.
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


class LearnedArrays:
    """Parameters that are updated in place, with moments that begin with zeros.

    Those of float16 are the rounded image of float32 weights; of bfloat16, rounded half up, of
    which only the 16 bits are kept that the parameter lacks.
    """

    def __init__(
        self, params: Sequence[Array] | Mapping[str, Array], moments: Sequence[str]
    ) -> None:
        self.by_name = _named(params)
        self._names = list(self.by_name)
        self.given_names: Sequence[str] = self._names  # in results and errors
        self._images = [core_array(array, name) for name, array in self.by_name.items()]
        self._weights = [
            _kept(image, array)
            for image, array in zip(self._images, self.by_name.values(), strict=True)
        ]
        self.moments = {
            kind: [
                np.zeros(weights.shape, np.promote_types(weights.dtype, np.float32))
                for weights in self._weights
            ]
            for kind in moments
        }

    def collect(self, gradients: Sequence[Array | None]) -> dict[int, Array]:
        """Return the gradients that are there as the core takes them, by parameter number.

        TypeError or ValueError is raised if they do not fit the parameters, or all are None.
        """
        if len(gradients) != len(self._names):
            raise ValueError(
                f"wanted a gradient or None for each of {len(self._names)} parameters, "
                f"got {len(gradients)}"
            )
        collected = {}
        shapes = [array.shape for array in self.by_name.values()]
        for i, (name, gradient) in enumerate(zip(self.given_names, gradients, strict=True)):
            if gradient is None:
                continue
            if np.shape(gradient) != shapes[i]:
                raise ValueError(
                    f"the gradient of {name} must have shape {shapes[i]}, "
                    f"got {np.shape(gradient)}"
                )
            collected[i] = core_array(gradient, f"the gradient of {name}")
        if not collected:
            raise ValueError(f"no parameter has a gradient: {', '.join(self.given_names[:5])}")
        return collected

    def update(
        self,
        rule: _core.train.Rule,
        options: _core.train.UpdateOptions,
        gradients: Mapping[int, Array],
    ) -> None:
        """Move the parameters with these numbers by their gradients."""
        weights = [self._weights[i] for i in gradients]
        moments = [[arrays[i] for i in gradients] for arrays in self.moments.values()]
        first, second, *_ = [*moments, weights, weights]
        images = [self._images[i] for i in gradients]
        _core.train.update(
            rule, options, weights, images, list(gradients.values()), first, second
        )

    def state(self) -> dict[str, Array]:
        """Return copies of weights and moments by ``"kind/parameter"``."""
        for array, weights in zip(self.by_name.values(), self._weights, strict=True):
            if array.dtype == np.float16:  # outside changes to it are taken over
                with np.errstate(over="ignore"):  # rounded as an update does
                    written = array != weights.astype(array.dtype)
                weights[written] = array[written]
        return {key: array.copy() for key, array in self._own().items()}

    def check(self, state: Mapping[str, Array]) -> None:
        """Raise `StateError` if a state is of other parameters."""
        check_keys("a learner's arrays", state, ())
        own = self._own()
        differing = sorted(own.keys() ^ state.keys()) or [
            key
            for key, array in own.items()
            if (array.shape, array.dtype)
            != (np.shape(state[key]), getattr(state[key], "dtype", None))
        ]
        if differing:
            raise StateError(f"the state is of other parameters: {', '.join(differing[:5])}")

    def restore(self, state: Mapping[str, Array]) -> None:
        """Set weights and moments, and parameters of 16 bits from their weights."""
        own = self._own()
        for key, array in own.items():
            array[...] = state[key]
        for i, (name, array) in enumerate(self.by_name.items()):
            if (weights := own.get(f"weights/{name}")) is None:
                continue
            if self._weights[i].dtype == np.uint16:
                bits = weights.view(np.uint32)
                self._weights[i][...] = bits.astype(np.uint16)
                self._images[i][...] = (bits + np.uint32(0x8000)) >> np.uint32(16)
            else:
                with np.errstate(over="ignore"):  # rounded as an update does
                    array[...] = weights.astype(array.dtype)

    def _own(self) -> dict[str, Array]:
        """Return the arrays that are kept beside the parameters, by kind and parameter."""
        arrays = {
            f"weights/{name}": _masters(image, weights)
            for name, weights, image in zip(
                self._names, self._weights, self._images, strict=True
            )
            if weights is not image
        }
        for kind, moments in self.moments.items():
            arrays |= {f"{kind}/{name}": moments[i] for i, name in enumerate(self._names)}
        return arrays


def _kept(image: Array, array: Array) -> Array:
    """Return what is kept of the weights of a parameter, which the core sees as an image."""
    if image.dtype == np.uint16:
        return np.zeros(array.shape, np.uint16)
    return array.astype(np.float32) if image.dtype == np.float16 else image


def _masters(image: Array, weights: Array) -> Array:
    """Return the float32 weights of a parameter of 16 bits."""
    if weights.dtype != np.uint16:
        return weights
    upper = image.reshape(weights.shape).astype(np.uint32) - (weights >> np.uint16(15))
    return np.asarray(upper << np.uint32(16) | weights).view(np.float32)


def _named(params: Sequence[Array] | Mapping[str, Array]) -> dict[str, Array]:
    """Name the parameters and refuse those that cannot be updated in place."""
    if isinstance(params, Mapping):
        named = dict(params)
    elif isinstance(params, Sequence):
        named = {str(i): array for i, array in enumerate(params)}
    else:
        raise TypeError(f"params must be a sequence or mapping, got {type(params).__name__}")
    if not named:
        raise ValueError("a learner needs at least one parameter, got none")
    for name, array in named.items():
        core_array(array, f"parameter {name}")
        if not array.flags.writeable:
            raise ValueError(f"parameter {name} must be a writable array")
        if not array.flags.c_contiguous:
            raise ValueError(f"parameter {name} must be C-contiguous")
    by_address = sorted(named, key=lambda name: named[name].ctypes.data)
    for name, following in pairwise(by_address):
        if named[name].ctypes.data + named[name].nbytes > named[following].ctypes.data:
            raise ValueError(f"parameters {name} and {following} share memory")
    return named
