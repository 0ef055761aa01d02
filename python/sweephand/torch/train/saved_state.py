"""Copies of tensors and optimizer states in main memory, and their files."""

import copy
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sweephand.errors import StateError
from sweephand.torch.train.sharded_state import whole
from sweephand.train.checkpoint.safetensors_file import (
    ITEM_BYTES,
    SavedTensors,
    Sink,
    TensorBytes,
    open_regular,
)

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.complex64: "C64",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint64: "U64", torch.uint32: "U32", torch.uint16: "U16", torch.uint8: "U8",
    torch.bool: "BOOL",
}  # fmt: skip
TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}
SPARSE_PARTS = {
    torch.sparse_coo: ("indices", "values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}
assert TORCH_DTYPES.keys() == ITEM_BYTES.keys()


def save_tensors(tensors: Mapping[str, Tensor]) -> SavedTensors:
    """Copy tensors into main memory, each part of a sparse one as a tensor of its own."""
    copies = on_host(dense_parts(tensors))
    return SavedTensors({name: _tensor_bytes(tensor) for name, tensor in copies.items()})


def load_tensors(saved: SavedTensors) -> dict[str, Tensor]:
    """Return tensors over the saved memory."""
    return {
        name: _tensor_over(tensor.data, TORCH_DTYPES[tensor.dtype], tensor.shape)
        for name, tensor in saved.tensors.items()
    }


def dense_parts(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors with the parts of each sparse one by names such as ``"mask.values"``."""
    parts = {}
    for name, tensor in tensors.items():
        whole = tensor.detach().coalesce() if tensor.is_sparse else tensor
        for part in SPARSE_PARTS.get(tensor.layout, ()):
            parts[f"{name}.{part}"] = getattr(whole, part)()
        if tensor.layout not in SPARSE_PARTS:
            parts[name] = tensor
    return parts


def joined_parts(parts: Mapping[str, Tensor], likes: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of such parts, in the layouts of others, or raise StateError."""
    return {name: _joined(parts, name, like) for name, like in likes.items()}


def _joined(parts: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
    if like.layout not in SPARSE_PARTS:
        return parts[name]
    *at, values = (parts[f"{name}.{part}"] for part in SPARSE_PARTS[like.layout])
    try:
        if like.is_sparse:
            return torch.sparse_coo_tensor(
                at[0], values, like.shape, is_coalesced=True, check_invariants=True
            )
        return torch.sparse_compressed_tensor(
            at[0], at[1], values, like.shape, layout=like.layout, check_invariants=True
        )
    except RuntimeError as error:
        raise StateError(f"the checkpoint is of another {name}: {error}") from error


@dataclass(frozen=True)
class SavedState:
    """A state of dicts, lists, numbers and tensors, held in main memory."""

    state: Any

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file without running code, or raise StateError."""
        try:
            with open_regular(path) as file:
                return cls(torch.load(file, map_location="cpu", weights_only=True))
        except StateError:
            raise
        except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
            raise StateError(
                f"{path} cannot be loaded as a state of tensors: {error}"
            ) from error

    def write(self, sink: Sink) -> None:
        """Write the file."""
        torch.save(self.state, sink)  # type: ignore[arg-type]

    def copy(self) -> Any:
        """Return a copy that callers may change."""
        return copy.deepcopy(self.state)


def on_host(state: Any) -> Any:
    """Return a copy of a nested state whose tensors are in main memory."""
    copies = _copied(state)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()  # copies from devices are under way until here
    return copies


def _copied(state: Any) -> Any:
    if isinstance(state, Tensor):
        return _copied_tensor(whole(state.detach()))
    if isinstance(state, Mapping):
        return {name: _copied(value) for name, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(_copied(value) for value in state)
    return state


def _copied_tensor(tensor: Tensor) -> Tensor:
    if tensor.device.type == "cuda":
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return host.copy_(tensor, non_blocking=True)
    if tensor.layout in SPARSE_PARTS:
        return tensor.to("cpu", copy=True)
    # NumPy asks for huge pages, torch does not: pages are made several times as fast.
    memory = np.empty(tensor.nbytes, np.uint8)
    return _tensor_over(memory, tensor.dtype, tensor.shape).copy_(tensor)


def _tensor_over(memory: NDArray[np.uint8], dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    if not memory.size:  # torch gives it strides that it cannot view
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(memory).view(dtype).reshape(shape)


def _tensor_bytes(tensor: Tensor) -> TensorBytes:
    values = tensor.contiguous().reshape(-1)
    memory = values.view(torch.uint8).numpy() if values.numel() else np.empty(0, np.uint8)
    return TensorBytes(DTYPES[tensor.dtype], tuple(tensor.shape), memory)
