"""The base of all learners: rates by the samples seen, and hyperparameters."""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from sweephand.base.checks import check_decay, check_int, check_number, check_rate
from sweephand.source.schedules import Schedule, mean_gradient_rate, minibatch_momentum
from sweephand.train.learners.schedules import (
    as_schedule,
    learning_parameter_schedule,
    read_schedule,
    schedule_state,
)
from sweephand.train.states import check_keys, decode, reading

logger = logging.getLogger("sweephand")

RATES = {"lr", "learning_rate", "weight_decay", "eps", "epsilon"}
DECAYS = {"momentum", "rho", "beta_1", "beta_2"}
HYPERPARAMETERS = RATES | DECAYS | {"betas"}
# The names by which states, rules and Keras call a hyperparameter or each of its parts.
PARTS = {"betas": ("beta_1", "beta_2"), "eps": ("epsilon",)}

Decay: TypeAlias = float | Schedule[float]


def check_hyperparameter(name: str, value: object) -> None:
    """Raise if a value is of a wrong type or range; other names are left to the optimizer."""
    if name == "betas":
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise TypeError(f"betas must be a pair of numbers, got {value!r}")
        for beta in value:
            check_decay("a beta", beta)
    elif name in RATES:
        check_rate(name, value)
    elif name in DECAYS:
        check_decay(name, value)


Restored: TypeAlias = Literal["checkpoint", "given"]
"""Whose hyperparameters hold after a restore."""


def report_restored(name: str, restored: object, given: object) -> None:
    """Log a hyperparameter of a checkpoint that takes the place of another."""
    if restored != given:
        logger.warning(
            "%s is %s as in the checkpoint, not %s; hyperparameters='given' keeps what is "
            "given here",
            name,
            restored,
            given,
        )


@dataclass
class Clock:
    """Counts of one clock."""

    steps: int = 0
    samples: int = 0
    sweeps: int = 0


@dataclass
class Clocks:
    """A clock that moves with every step, and one only with those that change parameters.

    Sweeps that end in a skipped step are not lost: the next applied step counts them.
    """

    consumed: Clock = field(default_factory=Clock)
    applied: Clock = field(default_factory=Clock)

    def advance(self, num_samples: int, sweeps_ended: int, *, applied: bool) -> None:
        """Count one step."""
        self.consumed.steps += 1
        self.consumed.samples += num_samples
        self.consumed.sweeps += sweeps_ended
        if applied:
            self.applied.steps += 1
            self.applied.samples += num_samples
            self.applied.sweeps = self.consumed.sweeps


class Pace(Clocks):
    """The clocks of a learner and its schedule of rates, None where others set them."""

    def __init__(self, lr_schedule: float | Schedule[float] | None) -> None:
        super().__init__()
        self.schedule = None if lr_schedule is None else as_schedule(lr_schedule)
        self.factor = 1.0  # of scheduled rates, until another schedule is followed
        self._origin = Clocks()  # where the schedule began

    @property
    def learning_rate(self) -> float:
        """The scheduled rate of the next step, for the reference size, or ValueError."""
        if self.schedule is None:
            raise ValueError("there is no schedule of learning rates")
        return self.factor * self.schedule.at(*self._position(self.schedule))

    @property
    def least_change(self) -> float:
        """The change of the scheduled rate that is worth a line in a log."""
        if self.schedule is None or self.is_last_rate:
            return 0.0
        return self.factor * self.schedule.least_change

    @property
    def is_last_rate(self) -> bool:
        """True if the schedule has come to its last rate, or there is no schedule."""
        if self.schedule is None:
            return True
        return self.schedule.is_last_at(*self._position(self.schedule))

    def reset(self, lr_schedule: float | Schedule[float]) -> None:
        """Follow another schedule, which counts from here."""
        self.schedule = as_schedule(lr_schedule)
        self.factor = 1.0
        self._origin = Clocks(replace(self.consumed), replace(self.applied))

    def decay(self, decay: float | Schedule[float], num_samples: int) -> float:
        """Return a momentum or other decay for the next step, of ``num_samples``.

        Its schedule counts from the very start; a number is the decay of any minibatch.
        """
        if not isinstance(decay, Schedule):
            return decay
        return minibatch_momentum(self.value(decay), num_samples, decay.minibatch_size)

    def value(self, schedule: Schedule[float]) -> float:
        """Return the value of a schedule for the next step, counted from the very start."""
        clock: Clock = getattr(self, schedule.follows)
        return schedule.at(clock.samples, clock.sweeps)

    def rate(self, num_samples: int) -> float:
        """Return the rate of the next step over the mean gradient of ``num_samples``."""
        return mean_gradient_rate(self.learning_rate, num_samples, self.reference_size)

    def state_dict(self) -> dict[str, Any]:
        """Return clocks and schedule as JSON can hold them."""
        return asdict(self) | {
            "origin": asdict(self._origin),
            "schedule": schedule_state(self.schedule),
            "factor": self.factor,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state with its schedule, or raise StateError and change nothing."""
        check_keys("a learner's clocks", state, self.state_dict())
        with reading("a learner's clocks"):
            origin = decode(Clocks, state["origin"], "origin")
            theirs = state["schedule"]
            schedule = None if theirs is None else read_schedule(theirs)
            factor = check_number("the factor", state["factor"])
            if not 0 < factor < math.inf:
                raise ValueError(f"the factor must be positive and finite, got {factor}")
            clocks = decode(Clocks, state)
        self.consumed, self.applied = clocks.consumed, clocks.applied
        report_restored("the learning rate", schedule, self.schedule)
        self._origin, self.schedule, self.factor = origin, schedule, factor

    def keep_schedule(self, state: dict[str, Any]) -> None:
        """Put the present schedule into a state that has another."""
        theirs = state["schedule"]
        if (theirs and read_schedule(theirs)) != self.schedule:
            mine = self.state_dict()
            state |= {name: mine[name] for name in ("origin", "schedule", "factor")}

    @property
    def reference_size(self) -> int | None:
        """The reference size of the schedule of learning rates."""
        return None if self.schedule is None else self.schedule.minibatch_size

    def _position(self, schedule: Schedule[float]) -> tuple[int, int]:
        """Return samples and sweeps since the schedule began."""
        clock: Clock = getattr(self, schedule.follows)
        origin: Clock = getattr(self._origin, schedule.follows)
        return clock.samples - origin.samples, clock.sweeps - origin.sweeps


class Learner(ABC):
    """Takes steps with the mean gradients of minibatches, at scheduled learning rates.

    Attributes
    ----------
    pace : Pace
        The clocks and the schedule of learning rates.
    """

    def __init__(self, lr_schedule: float | Schedule[float] | None) -> None:
        self.pace = Pace(lr_schedule)

    @property
    def learning_rate(self) -> float:
        """The scheduled rate of the next update; without a schedule the present rate.

        Setting it makes it constant from here on, for the reference size that it had.
        """
        if self.pace.schedule is None:
            return self._present_rate()
        return self.pace.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.pace.reset(learning_parameter_schedule(rate, self.pace.reference_size))

    def _present_rate(self) -> float:
        return self.pace.learning_rate  # which raises, as there is none

    def reset_learning_rate(self, lr_schedule: float | Schedule[float]) -> None:
        """Follow another schedule of learning rates, which counts from here."""
        self.pace.reset(lr_schedule)

    def schedules(self) -> dict[str, Schedule[float]]:
        """Return the schedules of other hyperparameters, by name."""
        return {}

    @abstractmethod
    def take(self, num_samples: int, sweeps_ended: int) -> None:
        """Take a step with the gradients that are at hand, and count it."""

    def skip(self, num_samples: int, sweeps_ended: int) -> None:
        """Count a step that is not taken."""
        self.pace.advance(num_samples, sweeps_ended, applied=False)

    def state_dict(self) -> dict[str, Any]:
        """Return clocks and rates as JSON can hold them."""
        return {"pace": self.pace.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, whose rates replace the present rates."""
        self.pace.load_state_dict(state["pace"])

    def keep_hyperparameters(self, state: dict[str, Any]) -> None:
        """Put the present rates and hyperparameters into a state, in place of its own."""
        self.pace.keep_schedule(state["pace"])


def check_counts(num_samples: int, sweeps_ended: int) -> None:
    """Raise unless a step can have these label samples and ended sweeps."""
    check_int("num_samples", num_samples)
    check_int("sweeps_ended", sweeps_ended, least=0)
