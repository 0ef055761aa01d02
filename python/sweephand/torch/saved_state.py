"""Torch modules, their learners and random numbers, as checkpoints hold them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from sweephand.errors import StateError, shown
from sweephand.torch.learner import TorchLearner
from sweephand.train.learners.learner import report_restored
from sweephand.train.states import BITS, Array, SavedArrays, Sink, open_regular
from sweephand.train.states import capture_random_state as capture_other_state
from sweephand.train.states import restore_random_state as restore_other_state
from sweephand.train.trainer.trained_model import (
    WEIGHTS,
    SavedFiles,
    check_coverage,
    check_scales,
    restore_scales,
)


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


class LearnedModule:
    """A module and its learners: their names, their saved state, and its restore.

    ValueError is raised if a parameter has no learner or several, or a learner has others.
    """

    def __init__(self, module: nn.Module, learners: Sequence[TorchLearner]) -> None:
        self.learners = learners
        self.guards = [one.guard for one in learners if one.guard is not None]
        self._module = module
        self._optimizers = [optimizer for one in learners for optimizer in one.optimizers]
        named = dict(module.named_parameters())
        self._learned = {name: p for name, p in named.items() if p.requires_grad}
        check_coverage(
            {name: id(parameter) for name, parameter in self._learned.items()},
            [
                id(parameter)
                for optimizer in self._optimizers
                for group in optimizer.param_groups
                for parameter in group["params"]
            ],
            frozen={id(parameter) for parameter in named.values()},
        )

    def check_savable(self) -> None:
        self._tensors()

    def capture(self) -> tuple[dict[str, Any], dict[str, Any]]:
        tensors = on_host(dict(self._tensors()))
        files: dict[str, Any] = {
            WEIGHTS: SavedArrays({name: array_of(one) for name, one in tensors.items()})
        }
        for i, optimizer in enumerate(self._optimizers):
            files[_optimizer_file(i)] = SavedState(on_host(optimizer.state_dict()))
        return files, self.describe()

    def describe(self) -> dict[str, Any]:
        return {
            # The kind of each, and how many parameters its groups have.
            "optimizers": [
                [type(one).__name__, [len(group["params"]) for group in one.param_groups]]
                for one in self._optimizers
            ],
            "learners": [learner.state_dict() for learner in self.learners],
            "loss_scales": [guard.state_dict() for guard in self.guards],
        }

    def tensors(self) -> dict[str, Any]:
        """Return parameters and states of optimizers, uncopied; of shards the local shard.

        Optimizers without a step return the states that they will have, and are not changed.
        """
        from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

        has_begun = any(optimizer.state for optimizer in self._optimizers)
        if not has_begun:
            self._clear()
        tensors = self._tensors()
        fresh = [optimizer for optimizer in self._optimizers if not optimizer.state]
        states = get_optimizer_state_dict(self._module, self._optimizers)
        for optimizer in fresh:
            optimizer.state.clear()
        return {"model": tensors, "optimizers": states, "has_begun": has_begun}

    def load(self, tensors: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        self._check_learners(state)
        given = self._settings()
        self._module.load_state_dict(tensors["model"])
        if tensors["has_begun"]:
            from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict

            set_optimizer_state_dict(self._module, self._optimizers, tensors["optimizers"])
        else:
            for optimizer in self._optimizers:
                optimizer.state.clear()
        self._load_described(state, given)

    def read(self, folder: Path) -> dict[str, Any]:
        files: dict[str, Any] = {WEIGHTS: SavedArrays.read(folder / WEIGHTS)}
        for i in range(len(self._optimizers)):
            files[_optimizer_file(i)] = SavedState.read(folder / _optimizer_file(i))
        return files

    def check(self, files: SavedFiles, state: Mapping[str, Any]) -> None:
        like = {name: _like(one) for name, one in self._tensors().items()}
        files[WEIGHTS].check("model", SavedArrays(like))
        self._check_learners(state)

    def _check_learners(self, state: Mapping[str, Any]) -> None:
        mine, theirs = self.describe()["optimizers"], state.get("optimizers")
        if mine != theirs:
            raise StateError(f"the checkpoint is of the optimizers {theirs}, here are {mine}")
        count, found = len(self.learners), len(state["learners"])
        if count != found:
            raise StateError(f"the checkpoint is of {found} learners, here are {count}")
        check_scales(self.guards, state["loss_scales"])

    def keep_hyperparameters(self, files: SavedFiles, state: dict[str, Any]) -> None:
        for learner, one in zip(self.learners, state["learners"], strict=True):
            learner.keep_hyperparameters(one)
        saved = [files[_optimizer_file(i)].state for i in range(len(self._optimizers))]
        groups = [group for one in saved for group in one["param_groups"]]
        for group, present in zip(groups, self._settings(), strict=True):
            group |= present

    def _settings(self) -> list[dict[str, Any]]:
        return [group for learner in self.learners for group in learner.settings()]

    def restore(self, files: SavedFiles, state: Mapping[str, Any]) -> None:
        given = self._settings()
        likes, weights = self._tensors(), files[WEIGHTS].arrays.items()
        self._module.load_state_dict(
            {name: part_like(likes[name], tensor_of(array)) for name, array in weights}
        )
        for i, optimizer in enumerate(self._optimizers):
            saved = copy.deepcopy(files[_optimizer_file(i)].state)  # the optimizer keeps it
            parameters = [one for group in optimizer.param_groups for one in group["params"]]
            numbers = [number for group in saved["param_groups"] for number in group["params"]]
            for number, parameter in zip(numbers, parameters, strict=True):
                of_one = saved["state"].get(number, {})
                for name, value in of_one.items():
                    if isinstance(value, Tensor):
                        of_one[name] = part_like(parameter, value)
            optimizer.load_state_dict(saved)
        self._load_described(state, given)

    def _load_described(
        self, state: Mapping[str, Any], given: Sequence[Mapping[str, Any]]
    ) -> None:
        for i, (mine, theirs) in enumerate(zip(given, self._settings(), strict=True)):
            place = f" of group {i}" if len(given) > 1 else ""
            for name, value in mine.items():
                report_restored(name + place, theirs.get(name), value)
        for learner, one in zip(self.learners, state["learners"], strict=True):
            learner.load_state_dict(one)
        restore_scales(self.guards, state["loss_scales"])

    def _clear(self) -> None:
        for parameter in self._learned.values():
            parameter.grad = None
        for guard in self.guards:
            guard.discard()

    def _tensors(self) -> dict[str, Tensor]:
        """Return the saved tensors of the module, by name, or raise TypeError."""
        found = self._module.state_dict()
        for name, value in found.items():
            try:
                _like(value)
                if value.layout is torch.strided and not value.is_meta:
                    continue
            except (AttributeError, TypeError):  # no tensor, or of a type that NumPy lacks
                pass
            kind = (
                f"{value.layout} {value.dtype}" if isinstance(value, Tensor) else shown(value)
            )
            raise TypeError(
                f"{name} of the module's state cannot be saved, it is {kind}: register it "
                "with persistent=False, or keep it as a dense tensor of another dtype"
            )
        return found


def _optimizer_file(i: int) -> str:
    return f"optimizer_{i}.pt"


def _like(tensor: Tensor) -> Array:
    """Return an array of the kind that a tensor is saved as, without its values."""
    return array_of(torch.empty((), dtype=tensor.dtype).expand(tensor.shape))
