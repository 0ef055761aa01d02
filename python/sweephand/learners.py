"""Schedules of rates and momenta where CNTK has them: ``C.learners``."""

from typing import NoReturn

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


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)


def __getattr__(name: str) -> NoReturn:
    """Raise AttributeError, with the replacement of a name of CNTK."""
    from sweephand.base.other_names import no_such_name

    raise no_such_name(__name__, name, __all__)
