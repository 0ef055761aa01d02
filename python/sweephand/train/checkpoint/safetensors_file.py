"""The safetensors format: arrays by name, in a file that runs no code when it is read.

    bytes   8                          n                    one tensor after the other
          | n, little-endian | JSON header, spaces | data of the 1st | data of the 2nd | ...

The header maps each name to dtype, shape and ``data_offsets``: begin and end in the data. The
tensors cover the data without gaps. Public document: the README of huggingface/safetensors.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sweephand.errors import DataError, StateError
from sweephand.files import local


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading, and never block on a pipe or device.

    StateError is raised if it is no regular file, or a link, which may lead out of the folder.
    """
    try:
        return local.open_regular(path, follow_links=False)
    except DataError as error:
        raise StateError(str(error)) from None


class Sink(Protocol):
    """A target of written bytes."""

    def write(self, data: Any, /) -> object:
        """Write all of them."""


class SavedFile(Protocol):
    """The content of one file of a checkpoint, held in main memory."""

    def write(self, sink: Sink, /) -> None:
        """Write it."""


class Hash(Protocol):
    """A hash of `hashlib`."""

    def update(self, data: Any, /) -> None:
        """Add bytes."""


class HashingSink:
    """A sink that hashes all bytes, and passes them on to a file, if any."""

    def __init__(self, digest: Hash, file: BinaryIO | None = None) -> None:
        self.size = 0
        self._digest = digest
        self._file = file

    def write(self, data: Any, /) -> int:
        """Add bytes."""
        if self._file is not None:
            self._file.write(data)
        self._digest.update(data)
        count = memoryview(data).nbytes
        self.size += count
        return count

    def flush(self) -> None:
        """Flush the file."""
        if self._file is not None:
            self._file.flush()


ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "complex64": "C64", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_NUMPY_NAMES = {tag: name for name, tag in DTYPES.items()}

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


@dataclass(frozen=True)
class SavedTensors:
    """The content of a safetensors file, held in main memory."""

    tensors: Mapping[str, TensorBytes]

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Make them of arrays, over the same memory where that is C-contiguous."""
        return cls({name: _tensor_of(array) for name, array in arrays.items()})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file, as views of one array, or raise StateError."""
        with open_regular(path) as file:
            content = np.fromfile(file, np.uint8)
        try:
            return cls(dict(_parse(content)))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise StateError(f"{path} is no safetensors file: {error}") from error

    def write(self, sink: Sink) -> None:
        """Write the file, widest elements first, which aligns them all."""
        tensors = self.tensors
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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return arrays over the same memory, or raise StateError if NumPy lacks a dtype."""
        return {name: _array_of(tensor) for name, tensor in self.tensors.items()}

    def check(self, what: str, wanted: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        """Raise StateError if names, dtypes or shapes differ from those expected."""
        found = {name: (tensor.dtype, tensor.shape) for name, tensor in self.tensors.items()}
        differing = [
            f"{name} is {_text(wanted.get(name))} here and {_text(found.get(name))} there"
            for name in sorted(wanted.keys() | found.keys())
            if wanted.get(name) != found.get(name)
        ]
        if differing:
            more = f"; and {len(differing) - 5} more" if len(differing) > 5 else ""
            raise StateError(
                f"the checkpoint is of another {what}: {'; '.join(differing[:5])}{more}"
            )


def _numpy_dtype(name: str) -> np.dtype[Any]:
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


def _tensor_of(array: NDArray[Any]) -> TensorBytes:
    name = array.dtype.name
    if name not in DTYPES or not array.dtype.isnative:
        raise TypeError(f"arrays of {array.dtype} cannot be saved")
    memory = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return TensorBytes(DTYPES[name], array.shape, memory)


def _array_of(tensor: TensorBytes) -> NDArray[Any]:
    if tensor.dtype not in _NUMPY_NAMES:
        raise StateError(f"NumPy has no dtype for {tensor.dtype}")
    dtype = _numpy_dtype(_NUMPY_NAMES[tensor.dtype])
    return tensor.data.view(dtype).reshape(tensor.shape)


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


def _text(kind: tuple[str, tuple[int, ...]] | None) -> str:
    return "absent" if kind is None else f"{kind[0]} {list(kind[1])}"
