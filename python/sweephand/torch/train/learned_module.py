"""Torch modules and their learners, as checkpoints hold them."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sweephand.errors import StateError
from sweephand.torch.train.learner import TorchLearner
from sweephand.torch.train.saved_state import SavedState, array_of, on_host, tensor_of
from sweephand.torch.train.sharded_state import (
    load_optimizer_states,
    optimizer_parts,
    optimizer_states,
    parts_like,
)
from sweephand.train.states import Array, SavedArrays
from sweephand.train.trainer.trained_model import (
    WEIGHTS,
    SavedFiles,
    check_coverage,
    check_scales,
    restore_scales,
)


class LearnedModule:
    """A module and its learners: their names, their saved state, and its restore.

    ValueError is raised if a parameter has no learner or several, or a learner has others.
    """

    def __init__(self, module: nn.Module, learners: Sequence[TorchLearner]) -> None:
        self.learners = learners
        self.guards = [one.guard for one in learners if one.guard is not None]
        self._module = module
        self._optimizers = [optimizer for one in learners for optimizer in one.optimizers]
        self._learned = self._check_coverage()

    def check_savable(self) -> None:
        """Raise TypeError if the module's state cannot be saved."""
        self._tensors()

    def capture(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return copies of parameters and learners."""
        tensors = on_host(dict(self._tensors()))
        files: dict[str, Any] = {
            WEIGHTS: SavedArrays({name: array_of(one) for name, one in tensors.items()})
        }
        for i, optimizer in enumerate(self._optimizers):
            files[_optimizer_file(i)] = SavedState(on_host(optimizer.state_dict()))
        return files, self.describe()

    def describe(self) -> dict[str, Any]:
        """Return all but tensors, as JSON can hold it."""
        return {
            "optimizers": [_describe(optimizer) for optimizer in self._optimizers],
            "learners": [learner.state_dict() for learner in self.learners],
            "loss_scales": [guard.state_dict() for guard in self.guards],
        }

    def tensors(self) -> dict[str, Any]:
        """Return parameters and states of optimizers, uncopied; of shards the local shard."""
        has_begun = any(optimizer.state for optimizer in self._optimizers)
        if not has_begun:
            self._clear()
        return {
            "model": self._tensors(),
            "optimizers": optimizer_states(self._module, self._optimizers),
            "has_begun": has_begun,
        }

    def load(self, tensors: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Continue from the results of `tensors` and `describe`."""
        self._check_learners(state)
        self._module.load_state_dict(tensors["model"])
        if tensors["has_begun"]:
            load_optimizer_states(self._module, self._optimizers, tensors["optimizers"])
        else:
            for optimizer in self._optimizers:
                optimizer.state.clear()
        self._load_described(state)

    def read(self, folder: Path) -> dict[str, Any]:
        """Return the files of a checkpoint."""
        files: dict[str, Any] = {WEIGHTS: SavedArrays.read(folder / WEIGHTS)}
        for i in range(len(self._optimizers)):
            files[_optimizer_file(i)] = SavedState.read(folder / _optimizer_file(i))
        return files

    def check(self, files: SavedFiles, state: Mapping[str, Any]) -> None:
        """Raise if a checkpoint is of another model or other learners."""
        like = {name: _like(one) for name, one in self._tensors().items()}
        files[WEIGHTS].check("model", SavedArrays(like))
        self._check_learners(state)

    def _check_learners(self, state: Mapping[str, Any]) -> None:
        mine = [_describe(optimizer) for optimizer in self._optimizers]
        theirs = state.get("optimizers")
        if mine != theirs:
            raise StateError(f"the checkpoint is of the optimizers {theirs}, here are {mine}")
        count, found = len(self.learners), len(state["learners"])
        if count != found:
            raise StateError(f"the checkpoint is of {found} learners, here are {count}")
        check_scales(self.guards, state["loss_scales"])

    def restore(self, files: SavedFiles, state: Mapping[str, Any]) -> None:
        """Continue from a captured state."""
        weights = {name: tensor_of(array) for name, array in files[WEIGHTS].arrays.items()}
        self._module.load_state_dict(parts_like(self._tensors(), weights))
        for i, optimizer in enumerate(self._optimizers):
            saved = copy.deepcopy(files[_optimizer_file(i)].state)  # the optimizer keeps it
            optimizer.load_state_dict(optimizer_parts(optimizer, saved))
        self._load_described(state)

    def _load_described(self, state: Mapping[str, Any]) -> None:
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
            if not isinstance(value, Tensor):
                kind = f"a {type(value).__name__}"
            elif not _can_be_saved(value):
                kind = f"{value.layout} of {value.dtype} on {value.device}"
            else:
                continue
            raise TypeError(
                f"{name} of the module's state cannot be saved, it is {kind}: register it "
                "with persistent=False, or keep it as a dense tensor of another dtype"
            )
        return found

    def _check_coverage(self) -> dict[str, nn.Parameter]:
        """Return the parameters that are learned, by name."""
        named = dict(self._module.named_parameters())
        learned = {name: p for name, p in named.items() if p.requires_grad}
        check_coverage(
            {name: id(parameter) for name, parameter in learned.items()},
            [
                id(parameter)
                for optimizer in self._optimizers
                for group in optimizer.param_groups
                for parameter in group["params"]
            ],
            frozen={id(parameter) for parameter in named.values()},
        )
        return learned


def _optimizer_file(i: int) -> str:
    return f"optimizer_{i}.pt"


def _describe(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Return the kind of an optimizer, and how many parameters its groups have."""
    groups = [len(group["params"]) for group in optimizer.param_groups]
    return [type(optimizer).__name__, groups]


def _like(tensor: Tensor) -> Array:
    """Return an array of the kind that a tensor is saved as, without its values."""
    return array_of(torch.empty((), dtype=tensor.dtype).expand(tensor.shape))


def _can_be_saved(tensor: Tensor) -> bool:
    try:
        _like(tensor)
    except TypeError:
        return False
    return tensor.layout is torch.strided and not tensor.is_meta
