"""The steering of a run at the ends of epochs: rates by the loss, sizes by trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from sweephand.checks import check_flag, check_number
from sweephand.source.schedules.schedule import Schedule
from sweephand.train.checkpoint.read_state import read_count, read_optional, read_text, reading
from sweephand.train.checkpoint.snapshot import Snapshot
from sweephand.train.session.critical_batch_size import BatchSizeBranches
from sweephand.train.session.learning_rate_control import LearningRateControl, RateController
from sweephand.train.session.minibatch_scaling import MinibatchScaling
from sweephand.train.session.session_settings import SessionSettings
from sweephand.train.session.training_run import CRITICAL_BATCH_SIZE, TrainingRun
from sweephand.train.session.trials import trial_loss, trial_noise_scale
from sweephand.train.trainer.trainer import Trainer


class Steering:
    """Judges epochs, goes back to the last accepted one, and chooses sizes.

    `read` returns the snapshot of a checkpoint by its number, `say` is told what must be heard.
    ValueError is raised if rates are set by others, or would change with the minibatch size.

    Attributes
    ----------
    accepted : int, Snapshot or None
        What a rejected epoch goes back to: the number of a checkpoint, or without checkpoints
        a snapshot.
    is_to_accept : bool
        Whether that is the present moment, once it is saved.
    ended : str or None
        Why training is to end.
    branches : BatchSizeBranches or None
        The last measurement of the critical batch size.
    """

    def __init__(
        self,
        run: TrainingRun,
        settings: SessionSettings,
        mb_size: Schedule[int],
        read: Callable[[int], Snapshot],
        say: Callable[[str], None],
    ) -> None:
        lr_control, mb_scaling = settings.lr_control, settings.mb_scaling
        critical = settings.critical_batch_size
        _check_rates(run.trainer, lr_control, mb_scaling)
        self._run = run
        if critical is not None:
            critical.check(run.trainer, max(size for _, size in mb_size.steps))
        self._scaling = mb_scaling
        self._critical = critical
        self._mb_size = mb_size
        self._read = read
        self._say = say
        self._controller = RateController(lr_control or LearningRateControl())
        self._first_rate = math.nan  # of the first epoch
        self._keeps_best = lr_control is not None and lr_control.load_best
        self.accepted: int | Snapshot | None = None
        self.is_to_accept = False
        self.ended: str | None = None
        self.branches: BatchSizeBranches | None = None

    def begin(self, is_there: Callable[[int], bool]) -> None:
        """Begin at the present moment, after a restore if there is one.

        Parameters
        ----------
        is_there : callable
            Tells whether there still is a checkpoint of a number.
        """
        if not self._keeps_best:
            self.accepted = None
        elif isinstance(self.accepted, int) and not is_there(self.accepted):
            self._say(f"checkpoint {self.accepted}, the last accepted epoch, is not there")
            self.accepted = None
        if math.isnan(self._first_rate):
            self._first_rate = self._run.rate
        self.is_to_accept |= self._keeps_best and self.accepted is None

    def accept(self, moment: int | Snapshot) -> None:
        """Remember where the present moment was saved, if it is to be accepted."""
        if self.is_to_accept:
            self.is_to_accept = False
            self.accepted = moment

    def judge(self, value: float) -> None:
        """Judge the epoch that has ended, by its loss."""
        if self._run.has_last_rates:
            self._decide(value)
        else:
            self._controller.note(value)
            self.is_to_accept = self._keeps_best

    def outlive(self, error: FloatingPointError) -> None:
        """Go back from a loss that is not finite, or raise the error if that is impossible."""
        if not (self._keeps_best and self._run.has_last_rates):
            raise error
        self._say(str(error))
        self._decide(math.nan)

    def choose_size(self) -> None:
        """Choose the size of minibatches for the next epochs."""
        assert self._scaling is not None
        position = self._run.count("sample"), self._run.count("sweep")
        if not self._mb_size.is_last_at(*position):
            return
        scheduled = self._mb_size.at(*position)
        present = self._run.size or scheduled
        self._run.size = self._chosen(self._scaling, scheduled, present)
        if self._run.size != present:
            self._run.trainer.tell("change", {"minibatch_size": self._run.size})

    def measure_batch_sizes(self) -> None:
        """Measure the critical batch size, and tell it."""
        assert self._critical is not None
        run = self._run
        scheduled = self._mb_size.at(run.count("sample"), run.count("sweep"))
        self.branches = self._critical.branch(run, run.size or scheduled)
        run.done(CRITICAL_BATCH_SIZE)
        size = self.branches.critical_batch_size
        if size is not None:
            run.trainer.tell("change", {"critical_batch_size": size})
        if self.branches.branches[0].num_steps:
            self._say(str(self.branches))
        else:
            self._say("no data are left to measure the critical batch size with")

    def state_dict(self) -> dict[str, Any]:
        """Return its state, as JSON can hold it."""
        return {
            "control": self._controller.state_dict(),
            "accepted": self.accepted if isinstance(self.accepted, int) else None,
            "is_to_accept": self.is_to_accept,
            "first_rate": self._first_rate,
            "ended": self.ended,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, or raise StateError."""
        with reading("a session"):
            accepted = read_optional(read_count, "accepted", state["accepted"])
            is_to_accept = check_flag("is_to_accept", state["is_to_accept"])
            first_rate = check_number("first_rate", state["first_rate"])
            ended = read_optional(read_text, "ended", state["ended"])
            self._controller.load_state_dict(state["control"])
        self.accepted, self.is_to_accept, self.ended = accepted, is_to_accept, ended
        self._first_rate = first_rate

    def _decide(self, value: float) -> None:
        """Accept or reject an epoch, and change the rates."""
        decision = self._controller.decide(value)
        factor = decision.factor
        if decision.is_rejected:
            self._go_back()
            factor = self._controller.factor
            seen = self._run.count("sample")
            self._say(f"the loss {value:g} is rejected: back to {seen} samples")
        else:
            self.is_to_accept = self._keeps_best
        self._run.multiply_rates(factor)
        if decision.ends_training:
            self.ended = "the loss stopped improving a second time"
        elif self._controller.is_too_low(self._run.rate):
            self.ended = f"the learning rate {self._run.rate:g} is below its floor"

    def _go_back(self) -> None:
        """Go back to the end of the last accepted epoch."""
        accepted = (
            self._read(self.accepted) if isinstance(self.accepted, int) else self.accepted
        )
        assert accepted is not None
        self._run.restore(accepted)
        self.is_to_accept = False

    def _chosen(self, scaling: MinibatchScaling, scheduled: int, present: int) -> int:
        run, trials = self._run, scaling.trial_minibatches
        if scaling.rule == "noise scale":
            return scaling.grow(present, trial_noise_scale(run, present, trials))
        sizes = scaling.trial_sizes(scheduled, present, run.rate / self._first_rate)
        return scaling.search(sizes, present, lambda size: trial_loss(run, size, trials))


def _check_rates(
    trainer: Trainer,
    lr_control: LearningRateControl | None,
    mb_scaling: MinibatchScaling | None,
) -> None:
    """Raise if rates cannot be controlled, or would change with the minibatch size."""
    for learner in trainer.model.learners:
        schedule = learner.pace.schedule
        if schedule is None and (lr_control is not None or mb_scaling is not None):
            raise ValueError(
                "a learner without a schedule of learning rates cannot be steered: its rates "
                "are set by others"
            )
        if mb_scaling is not None and schedule is not None and schedule.minibatch_size is None:
            raise ValueError(
                "minibatch scaling needs learning rates with a reference size: those of a "
                "minibatch of any size would change their meaning with it"
            )
