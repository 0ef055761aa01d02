"""FSDP2, or DDP, in `Trainer`, whose checkpoints are those of torch.distributed.checkpoint.

usage: fsdp2_loop.py FOLDER fsdp2|ddp STEPS [RESUME]

It goes on from the checkpoint in RESUME, ends after so many steps in all, and leaves a
checkpoint. Every rank writes the ids of its rows and the losses of its steps, and rank 0 how
large the weights are in the end.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from examples.torch_fsdp2 import ROW, ROWS, NextToken, cross_entropy, make_source
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import sweephand as sh
import sweephand.torch


def make_trainer(way: str) -> tuple[sh.Trainer, nn.Module, Any]:
    torch.manual_seed(0)
    model: nn.Module = NextToken()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp_shard",))
    if way == "ddp":
        model = DistributedDataParallel(model)
    else:
        fully_shard(model.layers, mesh=mesh)
        fully_shard(model, mesh=mesh)
    learner = sh.torch.Learner(torch.optim.AdamW(model.parameters()), 1e-2)
    return sh.Trainer(model, cross_entropy, learner), model, mesh


def main() -> None:
    folder, way, steps, *resume = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trainer, model, mesh = make_trainer(way)
    source = make_source()
    parts = {"trainer": trainer, "source": source}
    if resume:
        dcp.load(parts, checkpoint_id=resume[0])
    share = sh.torch.distributed.coordinate(mesh)
    ids, losses = [], []
    size = ROWS * ROW
    while source.current_position < int(steps) * size * 0.9:
        minibatch = source.next_minibatch(size, None, None, *share)
        trainer.train_minibatch(minibatch, minibatch.global_num_label_samples)
        ids.append(minibatch.ids)
        losses.append(trainer.previous_minibatch_loss_average)
    dcp.save(parts, checkpoint_id=Path(folder) / "saved")
    weights = [
        one.full_tensor() if isinstance(one, DTensor) else one for one in model.parameters()
    ]
    norms = [float(one.detach().norm()) for one in weights]
    found = {"ids": ids, "losses": losses, "norms": norms}
    (Path(folder) / f"rank{os.environ['RANK']}.json").write_text(json.dumps(found))
    del trainer, model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
