"""Measures batch sizes with two workers: run by test_batch_size_workers.py.

usage: batch_size_workers.py FOLDER

Prints as JSON for each worker what the branches of training have found; and for each number of
sub-minibatches the noise scale that the trainer has found, and the one that follows from the
gradients of all parts by themselves.
"""

import math
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tests.train.children import tell_two
from tests.train.small import source_of_lengths
from tests.train.small_torch import torch_error
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import sweephand as sh
import sweephand.torch
from sweephand.ext.follow.noise_scale import estimate
from sweephand.extend import PartNorms
from sweephand.train.trainer.trainer import split

SIZE = 23


ENGINES = ("ddp", "fsdp")
LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6] * 3


def branches(is_shared: bool) -> list[Any]:
    """Return what branches of training find, and the weights before and after."""
    torch.manual_seed(0)
    module = nn.Linear(2, 1)
    model = DistributedDataParallel(module) if is_shared else module
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    trainer = sh.Trainer(model, torch_error, sh.torch.Learner(optimizer, 0.01))
    measuring = sh.train.CriticalBatchSize(300, tolerance=9.0)
    found = measuring.measure(trainer, source_of_lengths(LENGTHS), 9)
    return [*found.branches, trainer.consumed.steps, module.weight.tolist()]


def share(rank: int) -> sh.Minibatch:
    return source_of_lengths(LENGTHS).next_minibatch(SIZE, None, None, 2, rank)


def make(engine: str) -> tuple[nn.Module, nn.Module]:
    """Return a module that many train, and the same by itself."""
    torch.manual_seed(0)
    module, alone = (nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)) for _ in range(2))
    alone.load_state_dict(module.state_dict())
    if engine == "ddp":
        return DistributedDataParallel(module), alone
    mesh = init_device_mesh("cpu", (2,))
    for one in module[0], module:
        fully_shard(one, mesh=mesh)
    return module, alone


def trained(model: nn.Module, parts: int, share: sh.Minibatch, *observers: Any) -> sh.Trainer:
    """Return the trainer of a model after a step."""
    learner = sh.torch.Learner(torch.optim.SGD(model.parameters(), 0.01), 0.01)
    trainer = sh.Trainer(model, torch_error, learner, observers, sub_minibatches=parts)
    trainer.train_minibatch(share)
    return trainer


def noise_scales(rank: int, parts: int, engine: str) -> list[float]:
    """Return the noise scale of a step by the trainer, and by hand."""
    model, alone = make(engine)
    told: list[Any] = [None, None]
    dist.all_gather_object(told, [by_itself(alone, one) for one in split(share(rank), parts)])
    noise = sh.train.GradientNoiseScale(decay=0.0)
    trained(model, parts, share(rank), noise)
    return [noise.value, by_hand([pair for pairs in told for pair in pairs])]


def weights(rank: int, parts: int, engine: str, measures: bool) -> list[float]:
    """Return what this worker has of the parameters after a step."""
    model, _ = make(engine)
    observers = [sh.train.GradientNoiseScale()] if measures else []
    trained(model, parts, share(rank), *observers)
    own = [getattr(p, "_local_tensor", p).detach().flatten() for p in model.parameters()]
    found: list[float] = torch.cat(own).tolist()
    return found


def by_itself(module: nn.Module, part: Any) -> tuple[int, list[float]]:
    """Return label samples and gradient sum of a part."""
    gradients = torch.autograd.grad(torch_error(module, part), list(module.parameters()))
    return part["labels"].num_samples, torch.cat([g.flatten() for g in gradients]).tolist()


def by_hand(parts: list[tuple[int, list[float]]]) -> float:
    sums = torch.tensor([one for _, one in parts], dtype=torch.float64)
    sizes = [size for size, _ in parts]
    together = float((sums.sum(0) / sum(sizes)).square().sum())
    squared = sums.square().sum(1).tolist()
    norms = PartNorms.of_sums(squared, sizes, together)
    variance, gradient = estimate(norms, sum(sizes))
    return max(variance, 0.0) / gradient if gradient > 0 else math.inf


def tell(folder: Path, rank: int) -> dict[str, Any]:
    return {
        "noise": [noise_scales(rank, *one) for one in product((1, 2, 3), ENGINES)],
        "weights": [weights(rank, 2, *one) for one in product(ENGINES, (False, True))],
        "branches": branches(is_shared=True),
    }


if __name__ == "__main__":
    tell_two(tell)
