"""Copies of tensors and optimizer states in main memory, and their files."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from sweephand.errors import StateError
from sweephand.torch.train.sharded_state import whole
from sweephand.train.states import BITS, Array, Sink, open_regular


def array_of(tensor: Tensor) -> Array:
    """Return a tensor of main memory as an array that can be saved; TypeError if it cannot."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name in BITS:
        bits = torch.int16 if tensor.itemsize == 2 else torch.uint8
        return tensor.view(bits).numpy().view(BITS[name])
    np.dtype(name)  # or it raises
    array: Array = tensor.numpy()
    return array


def tensor_of(array: Array) -> Tensor:
    """Return the tensor of such an array, over the same memory."""
    if array.dtype.names is None:
        return torch.from_numpy(array)
    bits = np.int16 if array.itemsize == 2 else np.uint8
    dtype: torch.dtype = getattr(torch, array.dtype.names[0])
    return torch.from_numpy(array.view(bits)).view(dtype)


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


def on_host(state: Any) -> Any:
    """Return a copy of a nested state whose tensors are in main memory."""
    copies = _copied(state)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()  # copies from devices are under way until here
    return copies


def _copied(state: Any) -> Any:
    if isinstance(state, Tensor):
        tensor = whole(state.detach())
        if tensor.device.type != "cuda":
            return tensor.to("cpu", copy=True)
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return host.copy_(tensor, non_blocking=True)
    if isinstance(state, Mapping):
        return {name: _copied(value) for name, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(_copied(value) for value in state)
    return state
