"""Learners for models whose parameters are NumPy arrays."""

from sweephand.train.learners.adaptive import (
    AdaDelta,
    AdaGrad,
    Adam,
    AdaMax,
    AdamW,
    RMSProp,
)
from sweephand.train.learners.array_learner import ArrayLearner as Learner
from sweephand.train.learners.momentum import SGD, Lion, MomentumSGD, Nesterov

__all__ = [
    "SGD",
    "AdaDelta",
    "AdaGrad",
    "AdaMax",
    "Adam",
    "AdamW",
    "Learner",
    "Lion",
    "MomentumSGD",
    "Nesterov",
    "RMSProp",
]


def __dir__() -> list[str]:
    """Return what is public."""
    return __all__
