"""Measurements of the critical batch size in a session."""

from __future__ import annotations

from sweephand.source.schedules.schedule import StepSchedule
from sweephand.train.session.activity import Activity
from sweephand.train.session.critical_batch_size import BatchSizeBranches, CriticalBatchSize
from sweephand.train.session.frequency import Frequency
from sweephand.train.session.training_run import TrainingRun


class Branching(Activity):
    """Measure the critical batch size, and report it.

    Attributes
    ----------
    branches : BatchSizeBranches or None
        The last measurement.
    """

    name = "critical batch size"
    is_optional = True
    is_final = True

    def __init__(
        self, run: TrainingRun, critical: CriticalBatchSize, sizes: StepSchedule[int]
    ) -> None:
        super().__init__(run.count, Frequency.parse("frequency", critical.frequency))
        critical.check(run.trainer, max(size for _, size in sizes.steps))
        self._run = run
        self._critical = critical
        self._sizes = sizes
        self.branches: BatchSizeBranches | None = None

    def act(self) -> None:
        """Measure from the present moment."""
        run = self._run
        scheduled = self._sizes.at(run.count("sample"), run.count("sweep"))
        self.branches = self._critical.branch(run, run.size or scheduled)
        self.done()
        size = self.branches.critical_batch_size
        if size is not None:
            run.trainer.report("change", {"critical_batch_size": size})
        if self.branches.branches[0].num_steps:
            run.announce(str(self.branches))
        else:
            run.announce("no data are left to measure the critical batch size with")
