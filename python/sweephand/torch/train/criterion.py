"""The criterion of a torch model, called on the shares of all workers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sweephand.train.trainer.trained_model import Data, check_losses
from sweephand.train.trainer.workers import Workers


class Sums(NamedTuple):
    """Loss and metric of a share."""

    # sums with one element; the metric is None if the criterion has none
    loss: Tensor
    metric: Tensor | None
    # The result of the criterion: the sum of the loss, or its losses. None for the replacement
    # of an empty share.
    losses: Tensor | None
    # Of the loss. Gradients are averaged over processes, so it is their number; and 0 for the
    # replacement of an empty share, whose worker must take part in collective calls.
    weight: float


class Criterion:
    """Calls a criterion with a model; an empty share takes the last that was not empty.

    The module inside of the model is in training or in evaluation mode.
    """

    def __init__(
        self,
        criterion: Callable[[Any, Any], Any],
        model: nn.Module,
        module: nn.Module,
        num_averaged: int,
        workers: Workers,
    ) -> None:
        self._criterion = criterion
        self._model = model
        self._module = module
        self._num_averaged = float(num_averaged)
        self._has_others = num_averaged > 1 or workers.num_partitions > 1
        self._stand_ins: dict[bool, Data] = {}  # by whether the module is in training mode

    def __call__(self, minibatch: Data) -> Sums:
        """Return loss and metric of a share."""
        weight = self._num_averaged
        if self._has_others:
            mode = self._module.training
            if getattr(minibatch, "num_sequences", None) == 0:
                weight = 0.0
                minibatch = self._stand_ins.get(mode, minibatch)
            else:
                self._stand_ins[mode] = minibatch
        found = self._criterion(self._model, minibatch)
        is_pair = isinstance(found, tuple | list) and len(found) == 2
        loss, metric = found if is_pair else (found, None)
        if not isinstance(loss, Tensor):
            raise ValueError(
                "the criterion must return the sum of the loss as a tensor, or a tensor of the "
                f"losses that make it up, and perhaps the sum of a metric, got {loss!r:.100}"
            )
        losses = loss.detach() if weight else None
        if loss.numel() != 1:
            check_losses(minibatch, tuple(loss.shape))
            loss = _sum(loss)
        if metric is not None and not isinstance(metric, Tensor):
            metric = torch.as_tensor(metric, device=loss.device)
        return Sums(loss if loss.dim() == 0 else loss.reshape(()), metric, losses, weight)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Set every module inside to evaluation mode, and restore it afterwards."""
    training = [one for one in module.modules() if one.training]
    module.eval()
    try:
        yield
    finally:
        for one in training:
            one.training = True


def _sum(losses: Tensor) -> Tensor:
    """Return the sum of losses, in double where the device has it: in half it overflows."""
    return losses.sum(dtype=torch.float32 if losses.device.type == "mps" else torch.float64)
