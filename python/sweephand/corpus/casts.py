"""Exact casts: a number keeps its value or is an error. The rule for all data of users.

It is that of the core's `convert`: integers stay what they are, also as floats, and floats that
become integers are whole; a float may be rounded, once, to a narrower one that was asked for.
``docs/numbers.md`` has the table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.errors import ArgumentTypeError

# Of Python's own scalars; "i" is for integers with and without a sign.
_KINDS: dict[type, str] = {bool: "b", int: "i", float: "f", complex: "c", str: "U", bytes: "S"}
_LISTS = {list, tuple}
_KIND_NAMES = {"b": "booleans", "i": "integers", "f": "floats", "U": "text", "S": "bytes"}


@lru_cache(maxsize=256)  # most of the time goes into the name of a dtype
def element_type(dtype: np.dtype[Any]) -> _core.base.ElementType:
    """Return the core's number type for a dtype; unknown types are copied as bytes."""
    name = "bool_" if dtype == np.bool_ else dtype.name
    return _core.base.ElementType.__members__.get(name, _core.base.ElementType.opaque)


def as_dtype(wanted: object) -> np.dtype[Any]:
    """Return the element type that a user names: NumPy's, or the one torch calls the same.

    ArgumentTypeError if it is none, or a type of text, which is delivered unchanged.
    """
    name: Any = str(wanted).removeprefix("torch.") if _is_torch(wanted) else wanted
    name = getattr(name, "as_numpy_dtype", name)  # TensorFlow's
    if name == "bfloat16":
        import ml_dtypes  # NumPy has no bfloat16 of its own

        name = ml_dtypes.bfloat16
    try:
        found: np.dtype[Any] = np.dtype(name)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"dtype must be a type of numbers such as 'float32' or 'int64', got {wanted!r:.60}"
        ) from None
    if found.itemsize == 0:
        raise ArgumentTypeError(
            f"dtype={wanted!r:.60}: text is delivered as bytes; leave dtype out"
        )
    return found


def as_array(what: str, data: object) -> NDArray[Any]:
    """Return data of a user as an array of native byte order, every value as it is."""
    if _is_torch(data):
        array = _from_torch(what, data)
    else:
        data = unmasked(what, data)
        kinds = kinds_in(what, data) if isinstance(data, list | tuple) else set()
        try:
            array = np.asarray(data)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{what} cannot be read as an array: {error}") from error
    check_dtype(what, array.dtype)
    if isinstance(data, list | tuple):
        _check_joined(what, data, kinds, array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array


def unmasked(what: object, data: object) -> object:
    """Return a masked array as the array that it is; ValueError if an element is masked."""
    # Without importing it, which takes long: who passes a masked array has it imported.
    if "numpy.ma" not in sys.modules or not isinstance(data, np.ma.MaskedArray):
        return data
    masked = np.flatnonzero(np.ma.getmaskarray(data))
    if masked.size:
        raise ValueError(
            f"{what}: element {masked[0]} is masked; what is masked has no value: fill "
            "it, such as by .filled(0), or leave it out"
        )
    return np.ma.getdata(data)


def check_dtype(what: str, dtype: np.dtype[Any]) -> None:
    """Refuse element types that have no plain bytes."""
    if dtype.hasobject:
        raise TypeError(
            f"{what} holds Python objects (dtype {dtype}); give numbers, or a list "
            "with one array per sequence"
        )
    if dtype.itemsize == 0:
        raise TypeError(f"{what} has elements of no bytes (dtype {dtype.str})")


def cast(array: NDArray[Any], dtype: np.dtype[Any], *, rounds: bool = True) -> NDArray[Any]:
    """Return an array of native byte order as another dtype.

    If it `rounds`, as the dtype was asked for, booleans may become numbers and floats narrower
    ones. ValueError if a value would be lost, or there is no cast.
    """
    if array.dtype == dtype:
        return array
    stored, wanted = element_type(array.dtype), element_type(dtype)
    if _core.base.ElementType.opaque in (stored, wanted):
        raise ValueError(f"there is no cast from {array.dtype} to {dtype}")
    if not (rounds or array.size == 0) and _may_round(array.dtype, dtype):
        raise ValueError(
            f"it is {array.dtype}, others are {dtype}; declare the dtype that all shall have"
        )
    given = np.ascontiguousarray(array)
    result = np.empty(given.shape, dtype)
    refused = _core.engine.convert(
        stored, _bytes_of(given), wanted, _bytes_of(result), given.size
    )
    if refused is not None:
        value = given.reshape(-1)[refused]
        raise ValueError(
            f"element {refused} is {value} ({array.dtype}), which does not fit {dtype}"
        )
    return result.reshape(array.shape)


def _may_round(stored: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    if (stored == np.bool_) != (wanted == np.bool_):
        return True
    are_floats = stored.kind not in "iu" and wanted.kind not in "iu"
    return are_floats and not np.can_cast(stored, wanted)


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _check_joined(
    what: str, data: list[Any] | tuple[Any, ...], kinds: set[str], array: NDArray[Any]
) -> None:
    """Refuse lists whose items NumPy has converted to another kind."""
    if len(kinds) > 1 and not kinds <= {"i", "f", "c"}:
        kinds_shown = " and ".join(sorted(_KIND_NAMES.get(kind, kind) for kind in kinds))
        raise ValueError(f"{what} mixes {kinds_shown} in one list")
    if kinds == {"i"} and array.dtype.kind not in "iu":
        raise ValueError(f"{what} holds integers that no type of 64 bits has all of")
    if "i" in kinds and array.dtype.kind in "fc":
        for found, given in zip(array.reshape(-1).tolist(), leaves(data), strict=True):
            if isinstance(given, int) and found != given:  # Python compares them exactly
                raise ValueError(
                    f"{what} has {given} beside numbers that make it {array.dtype}, "
                    "which cannot hold it"
                )


def kinds_in(what: str, data: list[Any] | tuple[Any, ...]) -> set[str]:
    """Return the kinds of all scalars in nested lists: "i" for all integers, else NumPy's."""
    types = set(map(type, data))
    while types and types <= _LISTS:
        data = list(chain.from_iterable(data))
        types = set(map(type, data))
    kinds = {_KINDS[one] for one in types if one in _KINDS}
    if len(kinds) == len(types):
        return kinds
    for item in data:
        if isinstance(item, list | tuple):
            kinds |= kinds_in(what, item)
        elif type(item) not in _KINDS:
            kind = _array_of(what, item).dtype.kind
            kinds.add("i" if kind == "u" else kind)
    return kinds


def leaves(data: list[Any] | tuple[Any, ...]) -> Iterator[Any]:
    """Yield all scalars in nested lists, in order."""
    for item in data:
        if isinstance(item, list | tuple):
            yield from leaves(item)
        elif type(item) in _KINDS:
            yield item
        else:
            yield from _array_of("", item).reshape(-1).tolist()


def _array_of(what: str, data: object) -> NDArray[Any]:
    return _from_torch(what, data) if _is_torch(data) else np.asarray(unmasked(what, data))


def _is_torch(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "torch"


def _from_torch(what: str, tensor: Any) -> NDArray[Any]:
    if hasattr(tensor, "get_mask"):
        raise ValueError(
            f"{what} is a masked tensor; what is masked has no value: fill it, such as "
            "by .to_tensor(0)"
        )
    tensor = tensor.detach()
    if str(tensor.dtype) == "torch.bfloat16":
        import ml_dtypes  # NumPy has no bfloat16 of its own

        # Viewed as integers of the same size, which NumPy can share.
        shared = tensor.view(dtype=sys.modules["torch"].int16)
        return np.asarray(shared.numpy()).view(ml_dtypes.bfloat16)
    return np.asarray(tensor.numpy())


def whole_number(given: object) -> int | None:
    """Return an integer by the rule of exact casts; None if the value is no integer."""
    if type(given) is int:  # the quick way
        return given
    try:
        number = as_array("the number", given)
        if number.shape != () or number.dtype.kind == "b":
            return None
        return int(cast(number, np.dtype(np.int64)))
    except (TypeError, ValueError):
        return None
