"""Tensors, states of optimizers and of random numbers, as checkpoints hold them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from sweephand.errors import StateError
from sweephand.train.states import BITS, Array, Sink, open_regular
from sweephand.train.states import capture_random_state as capture_other_state
from sweephand.train.states import restore_random_state as restore_other_state


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor with all its parts; all processes that hold parts must call it."""
    full: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return full


def part_like(like: Tensor, tensor: Tensor) -> Tensor:
    """Return the part of a whole tensor that this process has of another."""
    if not hasattr(like, "full_tensor") or tensor.shape != like.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    mesh, placements = like.device_mesh, like.placements  # type: ignore[attr-defined]
    # Every process has the whole one: there is nothing to send.
    return distribute_tensor(tensor.to(like.device), mesh, placements, src_data_rank=None)


def capture_random_state() -> dict[str, Any]:
    """Return the states of Python's, NumPy's and torch's global generators."""
    devices = []
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        devices = torch.cuda.get_rng_state_all()
    return capture_other_state() | {
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "cuda": [state.numpy().tobytes().hex() for state in devices],
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Set the global generators, but for those of devices that do not exist here.

    StateError is raised if it is no such state.
    """
    restore_other_state(state)
    try:
        torch.set_rng_state(_state_of(state["torch"]))
        if state["cuda"] and torch.cuda.is_available():
            states = [_state_of(text) for text in state["cuda"]]
            torch.cuda.set_rng_state_all(states[: torch.cuda.device_count()])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise StateError(f"this is no state of torch's generators: {error!r}") from error


def _state_of(digits: str) -> Tensor:
    return torch.frombuffer(bytearray.fromhex(digits), dtype=torch.uint8)


def saved_array(tensor: Tensor) -> Array:
    """Return a tensor of main memory as an array that can be saved; TypeError if it cannot."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name in BITS:
        bits = torch.int16 if tensor.itemsize == 2 else torch.uint8
        return tensor.view(bits).numpy().view(BITS[name])
    np.dtype(name)  # or it raises
    array: Array = tensor.numpy()
    return array


def saved_tensor(array: Array) -> Tensor:
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
