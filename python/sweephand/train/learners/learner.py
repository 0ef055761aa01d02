"""The base of all learners: rates by the samples seen, and clipping."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from sweephand.base.checks import check_int
from sweephand.source.schedules.schedule import Schedule
from sweephand.train.learners.learning_rate import Pace


class Learner(ABC):
    """Takes steps with the mean gradients of minibatches, at scheduled learning rates.

    The guard around a learner, of NumPy or of torch, decides whether a step is taken or
    skipped, and then calls one of these two methods.

    Attributes
    ----------
    pace : Pace
        The clocks and the schedule of learning rates.
    """

    def __init__(
        self,
        lr_schedule: float | Schedule[float] | None,
        clip_norm_per_sample: float | None,
        clip_norm_per_minibatch: float | None,
        single_sweep_steps: bool,
    ) -> None:
        self.pace = Pace(lr_schedule, single_sweep_steps=single_sweep_steps)
        norms = {"sample": clip_norm_per_sample, "minibatch": clip_norm_per_minibatch}
        for name, norm in norms.items():
            if norm is not None and not 0 < norm < math.inf:
                raise ValueError(f"clip_norm_per_{name} must be positive, got {norm!r}")
        if None not in norms.values():
            raise ValueError("give clip_norm_per_sample or clip_norm_per_minibatch, not both")
        self._largest_norms = norms

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
        self.pace.fix_rate(rate)

    def _present_rate(self) -> float:
        return self.pace.learning_rate  # which raises, as there is none

    def reset_learning_rate(self, lr_schedule: float | Schedule[float]) -> None:
        """Follow another schedule of learning rates, which counts from here."""
        self.pace.reset(lr_schedule)

    def schedules(self) -> dict[str, Schedule[float]]:
        """Return the schedules of other hyperparameters, by name."""
        return {}

    def largest_norm(self, num_samples: int) -> float | None:
        """Return the largest norm of the sum of that many gradients, if it is limited."""
        if (norm := self._largest_norms["sample"]) is not None:
            return norm * num_samples
        return self._largest_norms["minibatch"]

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
