"""Control of the learning rate at the ends of epochs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sweephand.base.checks import check_flag, check_number
from sweephand.train.checkpoint.read_state import read_count, read_optional, read_text, reading
from sweephand.train.session.evaluation import Validation
from sweephand.train.session.frequency import Frequency
from sweephand.train.session.learning_rate_control import LearningRateControl, RateController
from sweephand.train.session.saving import MemorySaving
from sweephand.train.session.training_run import NEVER, Activity, TrainingRun
from sweephand.train.trainer.trainer import Trainer


class RateControl(Activity):
    """Judge each epoch by its validation loss, and change the rates.

    Rejected epochs go back to the last accepted one, which `saving` holds.
    """

    name = "control"

    def __init__(
        self,
        run: TrainingRun,
        settings: LearningRateControl | None,
        validation: Validation,
        saving: MemorySaving,
    ) -> None:
        super().__init__(run, NEVER if settings is None else Frequency(1, "epoch"))
        if settings is not None:
            check_steerable(run.trainer)
        self._validation = validation
        self._saving = saving
        self._controller = RateController(settings or LearningRateControl())
        self._keeps_best = settings is not None and settings.load_best

    def begin(self) -> None:
        """Look for the last accepted epoch; without any, accept the present moment."""
        saving, run = self._saving, self.run
        if not self._keeps_best:
            run.accepted = None
        elif not saving.has_accepted:
            self.run.announce(
                f"checkpoint {run.accepted}, the last accepted epoch, is not there"
            )
            run.accepted = None
        if math.isnan(self.run.first_rate):
            self.run.first_rate = self.run.rate
        saving.is_to_accept |= self._keeps_best and run.accepted is None

    def act(self) -> None:
        """Judge the epoch that has ended."""
        value = self._validation.epoch_loss()
        self.done()
        if self.run.has_last_rates:
            self._decide(value)
        else:
            self._controller.note(value)
            self._saving.is_to_accept = self._keeps_best

    def outlive(self, error: FloatingPointError) -> None:
        """Go back from a loss that is not finite, or raise the error if that is impossible."""
        if not (self._keeps_best and self.run.has_last_rates):
            raise error
        self.run.announce(str(error))
        self._decide(math.nan)

    def session_state(self) -> dict[str, Any]:
        """Return its state, as JSON can hold it."""
        accepted = self.run.accepted
        steering = {
            "control": self._controller.state_dict(),
            "accepted": accepted if isinstance(accepted, int) else None,
            "is_to_accept": self._saving.is_to_accept,
            "first_rate": self.run.first_rate,
            "ended": self.ended,
        }
        return {"steering": steering}

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, or raise StateError."""
        with reading("a session"):
            steering = state["steering"]
            accepted = read_optional(read_count, "accepted", steering["accepted"])
            is_to_accept = check_flag("is_to_accept", steering["is_to_accept"])
            first_rate = check_number("first_rate", steering["first_rate"])
            ended = read_optional(read_text, "ended", steering["ended"])
            self._controller.load_state_dict(steering["control"])
        self.run.accepted, self._saving.is_to_accept = accepted, is_to_accept
        self.run.first_rate, self.ended = first_rate, ended

    def _decide(self, value: float) -> None:
        """Accept or reject an epoch, and change the rates."""
        decision = self._controller.decide(value)
        factor = decision.factor
        if decision.is_rejected:
            self.run.restore(self._saving.recall())
            self._saving.is_to_accept = False
            factor = self._controller.factor
            seen = self.run.count("sample")
            self.run.announce(f"the loss {value:g} is rejected: back to {seen} samples")
        else:
            self._saving.is_to_accept = self._keeps_best
        self.run.multiply_rates(factor)
        if decision.ends_training:
            self.ended = "the loss stopped improving a second time"
        elif self._controller.is_too_low(self.run.rate):
            self.ended = f"the learning rate {self.run.rate:g} is below its floor"


def check_steerable(trainer: Trainer) -> None:
    """Raise if something else sets the rates of a learner."""
    if any(learner.pace.schedule is None for learner in trainer.model.learners):
        raise ValueError(
            "a learner without a schedule of learning rates cannot be steered: its rates "
            "are set by others"
        )
