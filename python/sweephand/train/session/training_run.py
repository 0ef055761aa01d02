"""A training run: how far it has come, and how it goes back to an earlier moment."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sweephand.base.checks import check_flag, check_int, check_number
from sweephand.errors import StateError
from sweephand.source.source import MinibatchSource
from sweephand.train.checkpoint.read_state import (
    read_count,
    read_optional,
    reading,
)
from sweephand.train.checkpoint.snapshot import Snapshot
from sweephand.train.progress.averages import Averages
from sweephand.train.progress.record import Step
from sweephand.train.session.activity import Activity
from sweephand.train.session.frequency import Frequency, FrequencyUnit
from sweephand.train.session.minibatch_feed import MinibatchFeed
from sweephand.train.trainer.trainer import Trainer

logger = logging.getLogger("sweephand")


class TrainingRun:
    """State of a session that an epoch or a trial changes.

    Attributes
    ----------
    activities : list of Activity
        What a session does between minibatches, in this order.
    averages : dict
        Averages of steps since the last "epoch", and since the last "summary".
    size : int or None
        Samples of a minibatch, once scaling has chosen it.
    has_label_per_sequence : bool
        True if the last minibatch had as many label samples as sequences.
    validated : (int, float) or None
        The step after which was validated last, and the loss.
    first_rate : float
        The learning rate of the first epoch; NaN before.
    is_tested : bool
        True if the model was tested since the last step.
    """

    def __init__(
        self,
        trainer: Trainer,
        source: MinibatchSource,
        feed: MinibatchFeed,
        epoch: Frequency,
    ) -> None:
        self.trainer = trainer
        self.source = source
        self.feed = feed
        self.activities: list[Activity] = []
        self.averages = {"epoch": Averages(), "summary": Averages()}
        self.size: int | None = None
        self.has_label_per_sequence = False
        self.validated: tuple[int, float] | None = None
        self.first_rate = math.nan
        self.is_tested = False
        self._epoch = epoch

    def count(self, unit: FrequencyUnit) -> int:
        """Return the label samples, minibatches, sweeps, epochs or seconds of training."""
        consumed = self.trainer.consumed
        match unit:
            case "sample":
                return consumed.samples
            case "minibatch":
                return consumed.steps
            case "sweep":
                return consumed.sweeps
            case "seconds":
                return self.feed.seconds
            case "epoch":
                epoch = self._epoch
                return self.count(epoch.unit) // epoch.count if epoch.count else 0

    def update_averages(self, step: Step) -> None:
        """Add a step to the averages."""
        for one in self.averages.values():
            one.update(step)

    def announce(self, message: str) -> None:
        """Write a message to the progress writers, or to the log if none of them shows it."""
        if not self.trainer.report("event", {"message": message}):
            logger.warning("%s", message)

    @property
    def rate(self) -> float:
        """The learning rate of the next step; of several learners the highest."""
        return max(learner.learning_rate for learner in self.trainer.model.learners)

    def multiply_rates(self, factor: float) -> None:
        """Multiply the learning rates of all learners, from the next step on."""
        for learner in self.trainer.model.learners:
            learner.pace.factor *= factor

    def grow_rates(self, growth: float, factor: float) -> None:
        """Multiply the rates of mean gradients, while minibatches grow.

        Scheduled rates with a reference size grow with the minibatch by themselves.
        """
        for learner in self.trainer.model.learners:
            is_linear = learner.pace.reference_size is not None
            learner.pace.factor *= factor / growth if is_linear else factor

    @property
    def has_last_rates(self) -> bool:
        """True if the schedules of rates have come to their last values."""
        return all(learner.pace.is_last_rate for learner in self.trainer.model.learners)

    def capture(self) -> Snapshot:
        """Return a snapshot of this moment."""
        snapshot = self.trainer.capture()
        snapshot.state["source"] = self.source.get_checkpoint_state()
        snapshot.state["run"] = {
            "actions": {one.name: one.state_dict() for one in self.activities if one.name},
            "figures": {name: one.state_dict() for name, one in self.averages.items()},
            "size": self.size,
            "has_label_per_sequence": self.has_label_per_sequence,
            "validated": self.validated,
        }
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to the moment of a snapshot.

        StateError is raised if it is of another model, corpus or order, or of no run.
        """
        state = snapshot.state
        if "run" not in state:
            raise StateError(
                "the checkpoint was not saved by a session: it has no position of a source"
            )
        with reading("a run"):
            run = state["run"]
            size = read_optional(check_int, "size", run["size"])
            has_label = check_flag("has_label_per_sequence", run["has_label_per_sequence"])
            validated = _read_validated(run["validated"])
            self._restore_source_and_trainer(snapshot)
            for activity in self.activities:
                if activity.name:
                    activity.load_state_dict(run["actions"].get(activity.name))
            figures = {name: Averages.of_state(run["figures"][name]) for name in self.averages}
            self.averages |= figures
        self.size, self.has_label_per_sequence, self.validated = size, has_label, validated

    def capture_session(self) -> Snapshot:
        """Return a snapshot of this moment with the states of activities, for checkpoints."""
        snapshot = self.capture()
        session = snapshot.state["session"] = {"seconds": self.feed.seconds}
        for activity in self.activities:
            session |= activity.session_state()
        return snapshot

    def restore_session(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot of `capture_session`."""
        self.restore(snapshot)
        with reading("a session"):
            state = snapshot.state["session"]
            self.feed.begin_at(read_count("seconds", state["seconds"]))
            for activity in self.activities:
                activity.load_session_state(state)

    def begin(self) -> None:
        """Begin at the present moment, after a restore, if any."""
        for activity in self.activities:
            activity.begin()

    def _restore_source_and_trainer(self, snapshot: Snapshot) -> None:
        """Restore both, or neither if either raises."""
        stood = self.source.get_checkpoint_state()
        self.source.restore_from_checkpoint(snapshot.state["source"])
        try:
            self.trainer.restore(snapshot)
        except StateError:
            self.source.restore_from_checkpoint(stood)
            raise

    @contextmanager
    def without_trace(self, *calls: Callable[[Step], object]) -> Iterator[None]:
        """Call these with each step inside, and go back to the present moment afterwards."""
        before = self.capture()
        try:
            with self.trainer.reporting_only_to(*calls):
                yield
        finally:
            self.restore(before)


def _read_validated(state: Any) -> tuple[int, float] | None:
    if state is None:
        return None
    step, loss = state
    return read_count("a step", step), check_number("a loss", loss)
