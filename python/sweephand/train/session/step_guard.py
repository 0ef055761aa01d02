"""Guards of the steps of a session."""

from __future__ import annotations

from sweephand.ext.follow.spikes.spike_report import SpikeReport
from sweephand.train.checkpoint.snapshot import Snapshot
from sweephand.train.session.activity import Activity
from sweephand.train.trainer.trained_model import Data


class StepGuard(Activity):
    """Guard that lets every step pass; the base of those that go back from steps.

    Attributes
    ----------
    report : SpikeReport
        The spikes so far.
    """

    report = SpikeReport()

    def act(self) -> None:
        """Keep the present moment, to go back to it."""

    @property
    def is_healthy(self) -> bool:
        """True if the last step was."""
        return True

    @property
    def last_healthy(self) -> Snapshot | None:
        """The last kept moment, if the present moment is not healthy."""
        return None

    def before_step(self) -> None:
        """Prepare for a step, before its minibatch is read."""

    def note(self, size: int, minibatch: Data, num_samples: int) -> None:
        """Note the minibatch of the next step, and the size that was requested."""

    def check(self) -> None:
        """Raise `Spiked` if training must go back."""

    def go_back(self, error: Exception) -> bool:
        """Go back from a failure; return False if that is impossible."""
        return False
