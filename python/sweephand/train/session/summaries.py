"""Summaries of a session, and the averages of its epochs."""

from sweephand.train.progress.averages import Averages
from sweephand.train.session.activity import Activity
from sweephand.train.session.frequency import Frequency
from sweephand.train.session.training_run import TrainingRun


class Summaries(Activity):
    """Write the averages since the last summary."""

    name = "summary"
    is_final = True

    def __init__(self, run: TrainingRun, frequency: Frequency) -> None:
        super().__init__(run.count, frequency)
        self._run = run

    def act(self) -> None:
        """Write a summary, and begin the next one."""
        self.done()
        averages = self._run.averages
        self._run.trainer.report("summary", averages["summary"].figures())
        averages["summary"] = Averages()


class EpochEnds(Activity):
    """Begin new averages at the end of each epoch."""

    name = "epoch"

    def __init__(self, run: TrainingRun) -> None:
        super().__init__(run.count, Frequency(1, "epoch"))
        self._run = run

    def act(self) -> None:
        """Begin new averages."""
        self.done()
        self._run.averages["epoch"] = Averages()
