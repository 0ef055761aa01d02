"""Small torch models that the tests of training share."""

from collections.abc import Sequence
from typing import Any

import torch
from tests.train.small import LENGTHS, source_of_lengths
from torch import nn

import sweephand as sh
import sweephand.torch


def minibatch(size: int = 40, **options: Any) -> sh.Minibatch:
    return source_of_lengths(LENGTHS, **options).next_minibatch(size)


def torch_error(model: nn.Module, minibatch: sh.Minibatch) -> torch.Tensor:
    x = torch.from_numpy(minibatch["x"].values)
    y = torch.from_numpy(minibatch["labels"].values)
    return 0.5 * (model(x).squeeze(-1) - y).square().sum()


def torch_trainer(
    writers: Sequence[sh.train.ProgressWriter] = (),
    *,
    model: nn.Module | None = None,
    loss_scale: dict[str, Any] | None = None,
    rate: float = 0.1,
    criterion: Any = torch_error,
    **options: Any,
) -> tuple[nn.Module, sh.Trainer]:
    torch.manual_seed(0)
    model = nn.Linear(2, 1) if model is None else model
    optimizer: Any = torch.optim.Adam(model.parameters(), rate)
    if loss_scale is not None:
        optimizer = sh.LossScaleOptimizer(optimizer, **loss_scale)
    learner = sh.torch.Learner(optimizer, rate)
    return model, sh.Trainer(model, criterion, learner, writers, **options)


def parameters(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]
