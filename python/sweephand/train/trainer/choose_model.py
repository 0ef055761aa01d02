"""The choice of a framework for a model and its learners."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from sweephand.train.trainer.numpy_model import NumpyModel
from sweephand.train.trainer.trained_model import TrainedModel


def choose_model(
    model: Any, criterion: Callable[[Any, Any], Any], learners: Sequence[Any]
) -> TrainedModel:
    """Return the model with its learners, of torch or of NumPy."""
    if not learners:
        raise ValueError("a trainer needs at least one learner, got none")
    if "torch" not in sys.modules:  # then there can be no module of it
        return NumpyModel(model, criterion, learners)
    from sweephand.torch.train.model import TorchModel, is_module

    if not is_module(model):
        return NumpyModel(model, criterion, learners)
    return TorchModel(model, criterion, learners)
