"""Learners for models whose parameters are NumPy arrays."""

from sweephand.train.learner import Learner
from sweephand.train.learners import SGD, Adam, AdamW, MomentumSGD, Nesterov

__all__ = ["SGD", "Adam", "AdamW", "Learner", "MomentumSGD", "Nesterov"]
