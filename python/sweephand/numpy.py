"""Learners for models whose parameters are NumPy arrays."""

from sweephand.train.adaptive_learners import (
    AdaDelta,
    AdaGrad,
    Adam,
    AdaMax,
    AdamW,
    RMSProp,
)
from sweephand.train.learner import Learner
from sweephand.train.learners import SGD, Lion, MomentumSGD, Nesterov

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
