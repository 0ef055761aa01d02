"""The choice of wrapper for each optimizer; each optimizer is wrapped only once."""

import sys
import weakref
from collections.abc import Sequence

from sweephand.errors import ArgumentTypeError, shown
from sweephand.train.learners.array_learner import ArrayLearner
from sweephand.train.loss_scale.forwarded_hyperparameters import ForwardsHyperparameters
from sweephand.train.loss_scale.numpy_optimizers import NumpyOptimizers
from sweephand.train.loss_scale.optimizers import Optimizers

MARK = "_step_guard"  # an optimizer's weak reference to its wrapper


def listed(optimizer: object) -> list[object]:
    """Return the optimizers in a list or tuple, or a list of the single optimizer."""
    return list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]


def optimizers_of(
    optimizers: Sequence[object], num_threads: int, measure_underflow: bool
) -> Optimizers:
    """Return the optimizers of either framework as a guard uses them.

    ArgumentTypeError is raised for None, for an object that is no optimizer, and for a guard;
    ValueError if an optimizer is listed twice.
    """
    if any(isinstance(optimizer, ForwardsHyperparameters) for optimizer in optimizers):
        raise ArgumentTypeError("a guard or loss scale cannot be wrapped in another")
    if len({id(optimizer) for optimizer in optimizers}) < len(optimizers):
        raise ValueError("the same optimizer is listed twice")
    learners = [optimizer for optimizer in optimizers if isinstance(optimizer, ArrayLearner)]
    if learners and len(learners) == len(optimizers):
        return NumpyOptimizers(learners, num_threads)
    if optimizers and "torch" in sys.modules:  # else there can be no torch optimizer
        from sweephand.torch.train.optimizers import TorchOptimizers, are_optimizers

        if are_optimizers(optimizers):
            return TorchOptimizers(optimizers, num_threads, measure_underflow)
    raise ArgumentTypeError(
        "inner_optimizer must be a torch optimizer or a learner of sweephand.numpy, or a list "
        f"of one kind, got {', '.join(map(shown, optimizers)) or 'none'}"
    )


def mark_wrapped(optimizers: Sequence[object], wrapper: object) -> None:
    """Mark each optimizer with its wrapper; raise ValueError if another wrapper has it."""
    for optimizer in optimizers:
        if (other := getattr(optimizer, MARK, lambda: None)()) is not None:
            raise ValueError(
                f"this optimizer has a {type(other).__name__} already: {shown(optimizer)}"
            )
    for optimizer in optimizers:
        setattr(optimizer, MARK, weakref.ref(wrapper))
