"""Learners for models whose parameters are NumPy arrays."""

from sweephand.train.learners.array_learner import SGD, Adam, AdamW, MomentumSGD, Nesterov
from sweephand.train.learners.array_learner import ArrayLearner as Learner

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Learner",
    "MomentumSGD",
    "Nesterov",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
