"""The safetensors format: arrays by name, in a file that runs no code when it is read.

    bytes   8                          n                    one tensor behind the other
          | n, little-endian | JSON header, spaces | data of the 1st | data of the 2nd | ...

The header maps each name to dtype, shape and ``data_offsets``: begin and end in the data. The
tensors cover the data without gaps. Public document: the README of huggingface/safetensors.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand.dataclass import dataclass
from sweephand.errors import StateError
from sweephand.train.checkpoint.regular_file import open_regular

ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "complex64": "C64", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
NUMPY_NAMES = {tag: name for name, tag in DTYPES.items()}

_LARGEST_HEADER = 100_000_000
_ALIGNMENT = 8


@dataclass(frozen=True)
class TensorBytes:
    """A tensor as a file stores it: little-endian bytes in C order.

    The dtype is as the format spells it: ``"F32"``, ``"BF16"``, ...
    """

    dtype: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]


class Sink(Protocol):
    """Where bytes are written to."""

    def write(self, data: Any, /) -> object:
        """Write all of them."""


def write_tensors(tensors: Mapping[str, TensorBytes], sink: Sink) -> None:
    """Write tensors by name, widest elements first, which aligns them all."""
    order = sorted(tensors, key=lambda name: (-ITEM_BYTES[tensors[name].dtype], name))
    header = {}
    end = 0
    for name in order:
        begin, end = end, end + tensors[name].data.nbytes
        header[name] = {
            "dtype": tensors[name].dtype,
            "shape": list(tensors[name].shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, allow_nan=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    sink.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        sink.write(tensors[name].data.data)


def read_tensors(path: Path) -> dict[str, TensorBytes]:
    """Read tensors by name as views of one array, or raise StateError."""
    with open_regular(path) as file:
        content = np.fromfile(file, np.uint8)
    try:
        return dict(_parse(content))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StateError(f"{path} is no safetensors file: {error}") from error


def tensor_of_array(array: NDArray[Any]) -> TensorBytes:
    """Return an array as it is stored in a file: the same memory if it is C-contiguous."""
    name = array.dtype.name
    if name not in DTYPES or not array.dtype.isnative:
        raise TypeError(f"arrays of {array.dtype} cannot be saved")
    memory = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return TensorBytes(DTYPES[name], array.shape, memory)


def array_of_tensor(tensor: TensorBytes) -> NDArray[Any]:
    """Return a tensor as an array over the same memory; StateError if NumPy lacks its dtype."""
    if tensor.dtype not in NUMPY_NAMES:
        raise StateError(f"NumPy has no dtype for {tensor.dtype}")
    return tensor.data.view(numpy_dtype(NUMPY_NAMES[tensor.dtype])).reshape(tensor.shape)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of a name, including the bfloat16 of ml_dtypes."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(
            "arrays of bfloat16 need ml_dtypes: pip install 'sweephand[bfloat16]'"
        ) from None
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def _parse(content: NDArray[np.uint8]) -> list[tuple[str, TensorBytes]]:
    if content.size < 8:
        raise ValueError(f"it has {content.size} bytes")
    length = int.from_bytes(content[:8].tobytes(), "little")
    if length > min(content.size - 8, _LARGEST_HEADER):
        raise ValueError(f"its header should have {length} bytes")
    header = json.loads(content[8 : 8 + length].tobytes(), object_pairs_hook=unique)
    data = content[8 + length :]
    header.pop("__metadata__", None)
    tensors = []
    covered = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        shape = tuple(entry["shape"])
        if any(type(number) is not int or number < 0 for number in (*shape, begin, end)):
            raise ValueError(f"{name!r} has an impossible shape or place")
        if begin != covered or end > data.size:
            raise ValueError(f"{name!r} lies at [{begin}, {end}) of {data.size} bytes")
        if math.prod(shape) * ITEM_BYTES[entry["dtype"]] != end - begin:
            raise ValueError(f"{name!r} of shape {shape} has {end - begin} bytes")
        tensors.append((name, TensorBytes(entry["dtype"], shape, data[begin:end])))
        covered = end
    if covered != data.size:
        raise ValueError(f"{data.size - covered} bytes belong to no tensor")
    return tensors


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of a JSON object, or raise ValueError if a key comes twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key comes twice")
    return made
