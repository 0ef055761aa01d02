"""A small model that one process trains, or two do: as replicas, or as shards."""

import runpy
import sys
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from tests.torch.launch import ROOT
from tests.torch.ranks import PATIENT, begin, make_source, raised
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import sweephand as sh
import sweephand.torch
from sweephand.torch.distributed import Control, coordinate

Kind = Literal["alone", "ddp", "fsdp"]
SIZES = [12, 1, 9, 31, 14]  # a minibatch of one sequence leaves a worker without
PARTS = [1, 3]


class Run:
    """A trainer over its source, step by step."""

    def __init__(
        self,
        kind: Kind,
        parts: int = 1,
        loss_scale: float | None = None,
        fails_on: int | None = None,
    ) -> None:
        self.fails = False
        torch.manual_seed(0)
        self.module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
        model: nn.Module = self.module
        if kind == "ddp":
            model = DistributedDataParallel(self.module)
        if kind == "fsdp":
            mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
            fully_shard(self.module[0], mesh=mesh)
            fully_shard(self.module, mesh=mesh)
        optimizer: Any = torch.optim.Adam(self.module.parameters(), 0.05)
        if loss_scale is not None:
            optimizer = sh.LossScaleOptimizer(
                optimizer, initial_scale=loss_scale, clip_norm=0.5
            )
        learner = sh.torch.Learner(optimizer, 0.05)

        def criterion(model: nn.Module, minibatch: sh.Minibatch) -> torch.Tensor:
            if self.fails and coordinate()[1] == fails_on:
                raise ValueError("a shape is wrong")
            return squared_error(model, minibatch)

        self.trainer = sh.Trainer(model, criterion, learner, sub_minibatches=parts)
        self.source = make_source(randomization_seed=2)
        self.share = coordinate()

    def steps(self, first: int, count: int) -> list[list[float]]:
        """Take steps, and return loss and parameters after each."""
        told = []
        for size in SIZES[first : first + count]:
            minibatch = self.source.next_minibatch(size, None, None, *self.share)
            known = minibatch.global_num_label_samples
            self.trainer.train_minibatch(minibatch, known if size > 1 else None)
            loss = self.trainer.previous_minibatch_loss_average
            told.append([loss, *self.parameters()])
        return told

    def parameters(self) -> list[float]:
        whole = [p.full_tensor() if hasattr(p, "full_tensor") else p
                 for p in self.module.parameters()]  # fmt: skip
        return [v for p in whole for v in p.detach().flatten().tolist()]


def squared_error(model: Any, minibatch: sh.Minibatch) -> torch.Tensor:
    error = model(minibatch["x"].torch()).squeeze(-1) - minibatch["labels"].torch()
    return error.square().sum()


def train(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    """Train as replicas and as shards, with parts of minibatches and a loss scale."""
    begin()
    told: dict[str, Any] = {
        f"{kind} {parts}": Run(kind, parts).steps(0, len(SIZES))
        for kind in ("ddp", "fsdp")
        for parts in PARTS
    }
    told["fsdp scaled"] = Run("fsdp", loss_scale=8.0).steps(0, len(SIZES))
    try:
        Run("alone")
    except ValueError as error:
        told["refused"] = str(error)
    return told


def parts_of(run: Run) -> dict[str, Any]:
    """Return what `torch.distributed.checkpoint` saves and loads."""
    return {"trainer": run.trainer, "source": run.source}


def save(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    """Save shards in the middle, and tell what whoever goes on from there must find."""
    begin()
    run = Run("fsdp")
    run.steps(0, 2)
    group = dist.new_group(backend="gloo")  # of its own, as it saves while others train
    saving = dcp.async_save(parts_of(run), checkpoint_id=folder / "of two", process_group=group)
    run.trainer.save_checkpoint(folder / "own")
    state = run.source.state_dict()
    described = run.trainer.state_dict()["state"]
    told = run.steps(2, 3)
    saving.result()
    again, own = Run("fsdp"), Run("fsdp")
    dcp.load(parts_of(again), checkpoint_id=folder / "of two")
    own.trainer.restore_from_checkpoint(folder / "own")
    own.source.load_state_dict(state)
    return {
        "told": told,
        "again": again.steps(2, 3),
        "own": own.steps(2, 3),
        "source": state,
        "state": described,
    }


def load(rank: int, num_ranks: int, folder: Path) -> list[list[float]]:
    """Go on with two ranks from what one process has saved."""
    begin()
    run = Run("fsdp")
    dcp.load(parts_of(run), checkpoint_id=folder / "of one")
    return run.steps(2, 3)


def raises(rank: int, num_ranks: int, folder: Path) -> list[str]:
    """Let the criterion of rank 1 raise in the second step, and tell what rank 0 raises."""
    begin()
    run = Run("ddp", fails_on=1)
    run.steps(0, 1)
    run.fails = True
    if rank == 1:
        run.steps(1, 1)
    return raised(lambda: run.steps(1, 1))


def raises_beside(rank: int, num_ranks: int, folder: Path) -> list[str]:
    """Let rank 1 raise beside its trainer, in a control of the loop, while rank 0 trains."""
    begin()
    run = Run("ddp")

    def train() -> None:
        with Control(PATIENT):
            run.steps(0, 1)
            if rank == 1:
                raise ValueError("a metric is wrong")
            run.steps(1, 1)

    if rank == 1:
        train()
    return raised(train)


def fsdp_example(rank: int, num_ranks: int, folder: Path) -> None:
    """Run the example as a rank of torchrun does."""
    sys.argv = ["torch_fsdp2.py", "--folder", str(folder)]
    runpy.run_path(str(ROOT / "examples" / "torch_fsdp2.py"), run_name="__main__")
