"""Trains with two workers that keep a ledger: run by test_loss_ledger.py.

usage: ledger_workers.py FOLDER

Each worker is a child. Worker 0 writes the losses of its steps to FOLDER/losses.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch._dynamo  # what optimizers import, before there are children
import torch.distributed as dist
from tests.train.children import fork_two
from tests.train.small import Heard, source_of_lengths
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import sweephand as sh
import sweephand.torch

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6]
SIZES = [12, 1, 9, 31]  # a minibatch of one sequence leaves a worker without


def squared_errors(model: Any, minibatch: sh.Minibatch) -> torch.Tensor:
    error = model(minibatch["x"].torch()).squeeze(-1) - minibatch["labels"].torch()
    return error.square()


def make(ledger: sh.LossLedger, heard: Heard, *writers: sh.train.Receipts) -> sh.Trainer:
    torch.manual_seed(0)
    model: nn.Module = nn.Linear(2, 1)
    learner = sh.torch.Learner(torch.optim.SGD(model.parameters(), 0.1), 0.1)
    if dist.is_initialized():
        model = DistributedDataParallel(model)
    return sh.Trainer(model, squared_errors, learner, [heard, *writers, ledger])


def train(trainer: sh.Trainer, rank: int, count: int, loops: int = 0) -> None:
    """Train on a minibatch of each size, from where that many loops have ended."""
    source = source_of_lengths(LENGTHS)
    for i, size in enumerate(SIZES * (loops + 1)):
        minibatch = source.next_minibatch(size, None, None, count, rank)
        if i >= loops * len(SIZES):
            trainer.train_minibatch(minibatch)


def work(folder: Path, rank: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    heard = Heard()
    receipts = sh.train.Receipts(folder / "receipts", content=True)
    planned = sh.train.Receipts(folder / "planned")
    trainer = make(sh.LossLedger(folder / "ledger"), heard, receipts, planned)
    train(trainer, rank, 2)
    trainer.save_checkpoint(folder / "saved")
    train(trainer, rank, 2, loops=1)  # which a restore forgets
    trainer.writers[-1].close()  # type: ignore[attr-defined]
    receipts.close()
    planned.close()
    if rank == 0:
        (folder / "losses.json").write_text(json.dumps([step.loss for step in heard.steps]))
    dist.destroy_process_group()


def main() -> None:
    folder = Path(sys.argv[1])
    fork_two(lambda rank: work(folder, rank))


if __name__ == "__main__":
    main()
