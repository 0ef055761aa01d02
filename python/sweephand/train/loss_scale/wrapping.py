"""Which optimizers a loss scale can wrap, each but once."""

import sys
import weakref
from collections.abc import Sequence

from sweephand.errors import ArgumentTypeError
from sweephand.train.learners.hyperparameters import PassesHyperparametersOn
from sweephand.train.learners.learner import Learner
from sweephand.train.loss_scale.inner_optimizer import Inner
from sweephand.train.loss_scale.numpy_optimizer import NumpyInner

MARK = "_loss_scale_optimizer"  # an optimizer's weak reference to its wrapper


def listed(optimizer: object) -> list[object]:
    """Return a list of optimizers: the one that is given, or those in a list."""
    return list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]


def inner_of(optimizers: Sequence[object], num_threads: int, measure_underflow: bool) -> Inner:
    """Return what a loss scale works with.

    Raises
    ------
    ArgumentTypeError
        If there is one that is no optimizer or has a loss scale around it, or none at all.
    ValueError
        If the same one is listed twice.
    """
    if any(isinstance(optimizer, PassesHyperparametersOn) for optimizer in optimizers):
        raise ArgumentTypeError("a LossScaleOptimizer cannot be wrapped in another")
    if len({id(optimizer) for optimizer in optimizers}) < len(optimizers):
        raise ValueError("the same optimizer is listed twice")
    learners = [optimizer for optimizer in optimizers if isinstance(optimizer, Learner)]
    if learners and len(learners) == len(optimizers):
        return NumpyInner(learners, num_threads)
    if optimizers and "torch" in sys.modules:  # else nobody can have made a torch optimizer
        from sweephand.torch.train.inner_optimizer import TorchInner, are_optimizers

        if are_optimizers(optimizers):
            return TorchInner(optimizers, num_threads, measure_underflow)
    raise ArgumentTypeError(
        "inner_optimizer must be a torch optimizer or a learner of sweephand.numpy, or a list "
        f"of one kind, got {optimizers!r}"
    )


def mark_wrapped(optimizers: Sequence[object], wrapper: object) -> None:
    """Let each optimizer know its wrapper.

    Raises
    ------
    ValueError
        If one has another that is still alive.
    """
    for optimizer in optimizers:
        if getattr(optimizer, MARK, lambda: None)() is not None:
            raise ValueError(f"this optimizer has a LossScaleOptimizer already: {optimizer!r}")
    for optimizer in optimizers:
        setattr(optimizer, MARK, weakref.ref(wrapper))
