"""Learners for models whose parameters are NumPy arrays."""

from sweephand.train.learners.adadelta import AdaDelta
from sweephand.train.learners.adagrad import AdaGrad
from sweephand.train.learners.adam import Adam, AdaMax, AdamW
from sweephand.train.learners.array_learner import ArrayLearner as Learner
from sweephand.train.learners.lion import Lion
from sweephand.train.learners.rmsprop import RMSProp
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
