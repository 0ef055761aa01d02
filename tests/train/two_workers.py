"""Trains a small model with two workers: run by test_workers.py.

usage: two_workers.py FOLDER

Each worker is a child that tells its story; prints both as JSON.
"""

import os
import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tests.train.children import tell_two
from tests.train.small import LENGTHS, Heard, source_of_lengths
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import sweephand as sh
import sweephand.torch


def make(heard: Heard) -> tuple[nn.Module, sh.Trainer]:
    """Return a linear model and its trainer, for one worker or for several."""
    torch.manual_seed(0)
    module = nn.Linear(2, 1)
    model = DistributedDataParallel(module) if dist.is_initialized() else module
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    return module, sh.Trainer(model, squared_error, sh.torch.Learner(optimizer, 0.1), [heard])


def squared_error(model: Any, minibatch: sh.Minibatch) -> torch.Tensor:
    error = model(minibatch["x"].torch()).squeeze(-1) - minibatch["labels"].torch()
    return error.square().sum()


def preempted(folder: Path, rank: int) -> int:
    """Send a signal to worker 1 alone, and tell the code with which this one exits."""

    class Signalling(Heard):
        every_worker = True

        def update(self, step: sh.train.Step) -> None:
            if rank == 1 and step.step == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    try:
        sh.training_session(
            make(Signalling())[1],
            source_of_lengths(LENGTHS),
            5,
            max_samples=10_000,
            checkpoint_config=sh.CheckpointConfig(folder),
        ).train()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def tell(folder: Path, rank: int) -> dict[str, Any]:
    return {"exit_code": preempted(folder / "session", rank)}


if __name__ == "__main__":
    tell_two(tell)
