"""Heals a run of two workers: run by test_spike_workers.py.

usage: spike_workers.py FOLDER

Prints as JSON for each worker, and for each way to share a model, the lines of the report, the
events and the weights; then how a run ends of which a callback on the first worker says stop.
"""

from pathlib import Path
from typing import Any

import torch
from tests.ext.follow.spike_runs import CLASSES, points
from tests.train.children import tell_two
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import sweephand as sh
import sweephand.torch

POISON = (97, 297)


def cross_entropy(model: nn.Module, minibatch: sh.Minibatch) -> torch.Tensor:
    x, labels = minibatch["x"].torch(), minibatch["labels"].torch()
    return nn.functional.cross_entropy(model(x), labels, reduction="sum")


def heal(share: Any, policy: sh.SpikePolicy | None, **options: Any) -> dict[str, Any]:
    """Train with a model that is shared in a way, and tell what became of it."""
    torch.manual_seed(0)
    module = nn.Linear(CLASSES, CLASSES)
    model = share(module)
    far = float("nan") if options.pop("kind", "labels") == "nan" else -100
    optimizer: Any = torch.optim.SGD(model.parameters(), 0.3, momentum=0.5)
    if options.pop("scaled", False):
        optimizer = sh.LossScaleOptimizer(optimizer, initial_scale=8.0)
    trainer = sh.Trainer(model, cross_entropy, sh.torch.Learner(optimizer, 0.3))
    source = sh.MinibatchSource(
        points(POISON, far),
        events=options.pop("events", ()),
        max_sweeps=3,
    )
    activities = [] if policy is None else [policy]
    session = sh.training_session(trainer, source, 120, activities=activities, **options)
    ended = ""
    try:
        session.train()
    except sh.train.SpikeError as error:
        ended = str(error)
    weight = module.weight
    whole = weight.full_tensor() if hasattr(weight, "full_tensor") else weight
    report = policy.report if policy else sh.train.SpikeReport()
    return {
        "spikes": [str(one) for one in report.spikes],
        "banned": list(report.banned_ids),
        "events": [one.to_json() for one in source.events],
        "weights": whole.detach().flatten().tolist(),
        "ended": ended,
    }


def sharded(module: nn.Module) -> nn.Module:
    fully_shard(module, mesh=init_device_mesh("cpu", (2,)))
    return module


def tell(folder: Path, rank: int) -> dict[str, Any]:
    def first_says_stop(spike: sh.train.Spike) -> Any:
        return "stop" if rank == 0 else "skip"

    bisect = sh.SpikePolicy(action="bisect", signal="both", frequency=30)
    saving = sh.CheckpointConfig(folder / "run", frequency=(40, "minibatch"))
    told = {
        "ddp": heal(DistributedDataParallel, bisect, checkpoint_config=saving),
        "fsdp": heal(sharded, bisect),
        "stopped": heal(DistributedDataParallel, sh.SpikePolicy(action=first_says_stop)),
    }
    told["replayed"] = heal(DistributedDataParallel, None, events=told["ddp"]["events"])
    return told


if __name__ == "__main__":
    tell_two(tell)
