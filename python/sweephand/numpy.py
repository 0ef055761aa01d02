"""Learners for models whose parameters are NumPy arrays."""

from sweephand.train.learners.adam import Adam, AdaMax, AdamW
from sweephand.train.learners.adaptive import AdaDelta, AdaGrad, Lion, RMSProp
from sweephand.train.learners.array_learner import ArrayLearner as Learner
from sweephand.train.learners.sgd import SGD, MomentumSGD, Nesterov

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
    """Return the public names."""
    return __all__
