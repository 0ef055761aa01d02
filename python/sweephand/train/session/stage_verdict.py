"""The verdict on the stages of a session, at its end."""

import logging
from collections.abc import Mapping

from sweephand.train.session.activity import Activity
from sweephand.train.session.training_run import TrainingRun

logger = logging.getLogger("sweephand")


class StageVerdict(Activity):
    """Measure where the time of training goes, and report it at the end."""

    def __init__(self, run: TrainingRun) -> None:
        super().__init__(run.count)
        self._run = run
        self._stats: Mapping[str, float] | None = None  # when training began

    def begin(self) -> None:
        """Begin to measure, once."""
        if self._stats is None:
            self._stats = self._run.source.stats()

    def is_due_at_end(self) -> bool:
        """Return True if there is a verdict: always."""
        return True

    def act(self) -> None:
        """Report the stage that has limited training."""
        assert self._stats is not None
        stats = self._run.source.stats()
        verdict = self._run.averages.stages.verdict(self._stats, stats)
        if verdict is not None:
            self._run.trainer.report("event", {"message": verdict})
            logger.info("%s", verdict)
