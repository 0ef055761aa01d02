"""What every rank of test_step_guard.py does: guarded steps with shards of a module."""

import math
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import sweephand as sh

GRADIENTS = [1.0, 1.1, 0.9, 1.0, 100.0, math.inf, 1.0]


def guarded(model: nn.Module) -> sh.StepGuard[Any]:
    rule = sh.Outliers(of="gradient_norm", warmup=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.125)
    return sh.StepGuard(optimizer, clip_norm=0.5, outliers=rule)


def steps(model: nn.Module, guard: sh.StepGuard[Any]) -> list[sh.StepResult]:
    results = []
    for factor in GRADIENTS:
        guard.zero_grad()
        (model(torch.ones(1, 3)).sum() * factor).backward()
        results.append(guard.step())
    return results


def guarded_shards(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    alone = nn.Linear(3, 4)
    steps(alone, guarded(alone))
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Linear(3, 4)
    mesh = dist.init_device_mesh("cpu", (num_ranks,))
    fully_shard(model, mesh=mesh)
    guard = guarded(model)
    results = steps(model, guard)
    weights = [v for p in model.parameters() for v in p.full_tensor().flatten().tolist()]
    dist.destroy_process_group()
    return {
        "causes": [result.cause for result in results],
        "norms": [result.gradient_norm for result in results],
        "statistics": guard.state_dict()["outliers"],
        "weights": weights,
        "alone": [v for p in alone.parameters() for v in p.flatten().tolist()],
    }
