"""Schedules of rates and momenta where CNTK has them: ``C.learners``."""

from sweephand.base.other_names import public_face
from sweephand.train.learners.learner import Learner
from sweephand.train.learners.schedules import (
    learning_parameter_schedule,
    learning_parameter_schedule_per_sample,
    momentum_as_time_constant_schedule,
    momentum_schedule,
    momentum_schedule_per_sample,
)

__all__ = [
    "Learner",
    "learning_parameter_schedule",
    "learning_parameter_schedule_per_sample",
    "momentum_as_time_constant_schedule",
    "momentum_schedule",
    "momentum_schedule_per_sample",
]

__dir__, __getattr__ = public_face(__name__, __all__)
