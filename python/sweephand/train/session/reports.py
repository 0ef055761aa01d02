"""Reports of a session: summaries of its steps, and the stage that has limited it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sweephand.train.progress.averages import Averages
from sweephand.train.progress.record import Step
from sweephand.train.session.frequency import Frequency
from sweephand.train.session.training_run import Activity, TrainingRun

logger = logging.getLogger("sweephand")

_LITTLE = 0.1  # of the time; the most that the model waits for a loader that keeps up
_LOADER = {
    "disk": ("read_seconds", "waiting for disk or network"),
    "decode": ("decode_seconds", "decoding"),
    "assemble": ("assemble_seconds", "assembling"),
}


class Summaries(Activity):
    """Write the averages since the last summary."""

    name = "summary"
    is_final = True

    def __init__(self, run: TrainingRun, frequency: Frequency) -> None:
        super().__init__(run, frequency)

    def act(self) -> None:
        """Write a summary, and begin the next."""
        self.done()
        averages = self.run.averages
        self.run.trainer.report("summary", averages["summary"].figures())
        averages["summary"] = Averages()


class EpochEnds(Activity):
    """Begin new averages at the end of each epoch."""

    name = "epoch"

    def __init__(self, run: TrainingRun) -> None:
        super().__init__(run, Frequency(1, "epoch"))

    def act(self) -> None:
        """Begin new averages."""
        self.done()
        self.run.averages["epoch"] = Averages()


class StageVerdict(Activity):
    """Measure where the time of training goes, and report it at the end."""

    def __init__(self, run: TrainingRun) -> None:
        super().__init__(run)
        self._stats: Mapping[str, float] | None = None  # when training began
        self._seconds = self._waited_seconds = 0.0  # of all steps, and outside of the trainer

    def measured(self, step: Step) -> None:
        """Add the time of a step."""
        self._seconds += step.seconds
        self._waited_seconds += step.waited_seconds

    def begin(self) -> None:
        """Begin to measure, once."""
        if self._stats is None:
            self._stats = self.run.source.stats()

    def is_due_at_end(self) -> bool:
        """Return True if there is a verdict: always."""
        return True

    def act(self) -> None:
        """Report the stage that has limited training."""
        assert self._stats is not None
        stats = self.run.source.stats()
        verdict = limiting_stage(self._seconds, self._waited_seconds, self._stats, stats)
        if verdict is not None:
            self.run.trainer.report("event", {"message": verdict})
            logger.info("%s", verdict)


def limiting_stage(
    seconds: float,
    waited_seconds: float,
    before: Mapping[str, float],
    after: Mapping[str, float],
) -> str | None:
    """Return a line with the limiting stage and its figures; None without steps."""
    if seconds <= 0:
        return None
    waited = waited_seconds / seconds
    if waited < _LITTLE:
        return (
            f"the model limits: it took {1 - waited:.0%} of the time, and waited for data "
            f"{waited:.0%}"
        )
    spent = {name: after[name] - before[name] for name in after}
    if spent["waited_seconds"] < waited_seconds / 2:
        return (
            f"what is done between steps limits: {waited:.0%} of the time passed outside "
            f"of the model, and less than half of that was waiting for data"
        )
    stages = {stage: spent[name] for stage, (name, _) in _LOADER.items()}
    total = sum(stages.values()) or 1.0
    limit = max(stages, key=lambda stage: stages[stage])
    shares = ", ".join(
        f"{words} {stages[stage] / total:.0%}" for stage, (_, words) in _LOADER.items()
    )
    return (
        f"{limit} limits: the model waited {waited:.0%} of the time for data; of the "
        f"{total:.1f} s that the loader worked, {shares}"
    )
