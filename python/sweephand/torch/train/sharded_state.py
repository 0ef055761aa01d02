"""Sharded tensors: assembling them, and states of optimizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn


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


def parts_like(likes: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the parts of whole tensors that this process has, by name."""
    return {name: part_like(likes[name], tensor) for name, tensor in tensors.items()}


def optimizer_parts(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of an optimizer with whole tensors as this process has it."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    for number, parameter in zip(numbers, parameters, strict=True):
        of_one = state["state"].get(number, {})
        for name, value in of_one.items():
            if isinstance(value, Tensor):
                of_one[name] = part_like(parameter, value)
    return state


def optimizer_states(
    module: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> dict[str, Any]:
    """Return the states of optimizers by names of parameters, sharded as those are.

    Optimizers without a step return the states that they will have, and are not changed.
    """
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    fresh = [optimizer for optimizer in optimizers if not optimizer.state]
    states: dict[str, Any] = get_optimizer_state_dict(module, list(optimizers))
    for optimizer in fresh:
        optimizer.state.clear()
    return states


def load_optimizer_states(
    module: nn.Module, optimizers: Sequence[torch.optim.Optimizer], states: dict[str, Any]
) -> None:
    """Continue from such states."""
    from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict

    set_optimizer_state_dict(module, list(optimizers), states)
