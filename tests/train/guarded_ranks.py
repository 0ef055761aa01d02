"""What every rank of test_step_guard.py does: guarded steps with shards of a module."""

import math
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import sweephand as sh

GRADIENTS = [1.0, 1.1, 0.9, 1.0, 100.0, math.inf, 1.0]
ADAMS: dict[str, dict[str, Any]] = {
    "plain": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}


def model_of(kind: str) -> tuple[nn.Module, sh.StepGuard[Any]]:
    """Return a model, sharded if there are ranks, and its guard."""
    torch.manual_seed(0)
    model = nn.Linear(3, 4)
    if dist.is_initialized():
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
    rule = sh.Outliers(of="gradient_norm", warmup=4)
    adam, _, place = kind.partition(" on ")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.125, **ADAMS[adam])
    verdict: Any = place or "host"
    return model, sh.StepGuard(optimizer, clip_norm=0.5, outliers=rule, verdict=verdict)


def told(kind: str) -> dict[str, Any]:
    """Take steps, and return what became of them."""
    model, guard = model_of(kind)
    results = []
    for factor in GRADIENTS:
        guard.zero_grad()
        (model(torch.ones(1, 3)).sum() * factor).backward()
        results.append(guard.step())
    whole = [getattr(p, "full_tensor", lambda p=p: p)() for p in model.parameters()]
    return {
        "causes": [result.cause for result in results],
        "norms": [result.gradient_norm for result in results],
        "statistics": guard.state_dict()["outliers"],
        "weights": [value for one in whole for value in one.flatten().tolist()],
    }


def guarded_shards(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    kinds = [f"{adam}{place}" for adam in ADAMS for place in ("", " on device")]
    alone = {kind: told(kind)["weights"] for kind in kinds}
    dist.init_process_group("gloo")
    found = {kind: told(kind) | {"alone": alone[kind]} for kind in kinds}
    dist.destroy_process_group()
    return found


def exact_steps(model: nn.Module, optimizer: Any, steps: range) -> None:
    for i in steps:
        optimizer.zero_grad()
        (model(torch.full((1, 3), i % 5 - 1.5, dtype=torch.bfloat16)).sum() * 0.1).backward()
        optimizer.step()


def exact_model() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Linear(3, 4).bfloat16()
    if dist.is_initialized():
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
    return model, sh.torch.ExactMasters(torch.optim.Adam(model.parameters(), 1e-3))


def whole_masters(model: nn.Module, optimizer: Any) -> list[list[float]]:
    """Return weights, their missing bits and a moment, of all ranks."""
    whole = [getattr(p, "full_tensor", lambda p=p: p)() for p in model.parameters()]
    for p in model.parameters():
        for name in ("master_bits", "exp_avg"):
            value = optimizer.state[p][name]
            whole.append(getattr(value, "full_tensor", lambda value=value: value)())
    return [one.flatten().tolist() for one in whole]


def exact_shards(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model, optimizer = exact_model()
    exact_steps(model, optimizer, range(60))
    alone = whole_masters(model, optimizer)
    dist.init_process_group("gloo")
    model, optimizer = exact_model()
    exact_steps(model, optimizer, range(30))
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder / "exact")
    exact_steps(model, optimizer, range(30, 60))
    masters = whole_masters(model, optimizer)

    model, optimizer = exact_model()
    weights, state = get_state_dict(model, optimizer)
    saved = {"model": weights, "optimizer": state}
    dcp.load(saved, checkpoint_id=folder / "exact")
    set_state_dict(
        model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"]
    )
    exact_steps(model, optimizer, range(30, 60))
    again = whole_masters(model, optimizer)
    dist.destroy_process_group()
    return {"alone": alone, "masters": masters, "again": again}
