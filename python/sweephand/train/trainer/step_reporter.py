"""The reports of a trainer to its progress writers, and the last step that it took."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from sweephand.errors import ArgumentTypeError
from sweephand.train.learners.clock import Clock
from sweephand.train.ledger.loss_ledger import LossLedger
from sweephand.train.ledger.step_log import StepLog
from sweephand.train.progress.record import Figures, ProgressWriter, Record, RecordKind, Step
from sweephand.train.receipts.parts import control_part, parameters_part
from sweephand.train.receipts.receipt import NO_PARAMETERS
from sweephand.train.receipts.receipts import Receipts
from sweephand.train.trainer.mean_criterion import MeanDetector
from sweephand.train.trainer.noise_scale import SmoothedNoiseScale
from sweephand.train.trainer.trained_model import Outcome, TrainedModel
from sweephand.train.trainer.workers import Workers


class StepReporter:
    """Reports steps, once their results are known, and values that change between them.

    Attributes
    ----------
    writers : list of ProgressWriter
        Those that this worker reports to.
    """

    def __init__(
        self,
        writers: Sequence[Any],
        model: TrainedModel,
        noise: SmoothedNoiseScale | None = None,
    ) -> None:
        self.writers = _listening(writers, model.workers)
        self._model = model
        self._noise = noise
        self._scheduled = _scheduled(model)
        self._reported: dict[str, float] = {}  # the value of each when it was last reported
        self._pending: tuple[Outcome, Step] | None = None  # its results are on their way
        self._last: Step | None = None
        # Of all workers: parameters are gathered by those, too, that write nothing.
        self._receipts = [writer for writer in writers if isinstance(writer, Receipts)]
        for log in self._logs:
            log.share(model.workers.count, model.workers.index)
        self._mean_detector: MeanDetector | None = MeanDetector()

    def tell(self, kind: RecordKind, step: int, samples: int, figures: Figures) -> None:
        """Send a record to the progress writers."""
        for writer in self.writers:
            writer.write(Record(kind, step, samples, figures))

    def report_changes(self, clock: Clock) -> None:
        """Report the values that have changed for the next step."""
        if not self.writers:
            return
        for name, read in self._scheduled.items():
            value = read()
            if self._reported.get(name) != value:
                self._reported[name] = value
                self.tell("change", clock.steps + 1, clock.samples, {name: value})

    @contextmanager
    def reporting_to(self, writers: Sequence[ProgressWriter]) -> Iterator[None]:
        """Report to other writers inside; afterwards as if nothing had been reported there."""
        kept = self.writers, self._receipts, self._reported, self._last, self._mean_detector
        self.writers, self._reported, self._mean_detector = list(writers), {}, None
        self._receipts = []
        try:
            yield
        finally:
            (
                self.writers,
                self._receipts,
                self._reported,
                self._last,
                self._mean_detector,
            ) = kept

    @property
    def _ledgers(self) -> list[LossLedger]:
        return [writer for writer in self.writers if isinstance(writer, LossLedger)]

    @property
    def _logs(self) -> list[StepLog[Any]]:
        return [writer for writer in self.writers if isinstance(writer, StepLog)]

    def begin(self, steps: int) -> None:
        """Prepare logs for the step behind so many, or raise what keeps them from it."""
        for log in self._logs:
            log.begin(steps)

    def settle(self) -> None:
        """Wait for the results of the last step, and until logs have them on disk."""
        self.await_step()
        for log in self._logs:
            log.flush(to_disk=True)

    def rewind(self, steps: int) -> None:
        """Let logs drop what lies behind so many steps."""
        for log in self._logs:
            log.rewind(steps)

    def give_receipts(
        self, minibatch: object, step: int, num_samples: int, *, applied: bool
    ) -> None:
        """Give a step its receipts, with the values that held for it."""
        mine = [writer for writer in self.writers if isinstance(writer, Receipts)]
        if not mine and not self._receipts:
            return
        found = NO_PARAMETERS
        if any(one.wants_parameters(step) for one in {*mine, *self._receipts}):
            found = parameters_part(self._model.parameters())
        told = {"applied": applied, "num_samples": num_samples, **self._reported}
        for one in mine:
            parameters = found if one.wants_parameters(step) else NO_PARAMETERS
            one.add(minibatch, control_part(told), parameters, step)

    def add(self, outcome: Outcome, step: Step) -> None:
        """Report a step, or the one before if the results of this one are on their way.

        The loss and metric of the step are filled in from the outcome.
        """
        if isinstance(outcome.loss, float):
            self._report(outcome, step)
        else:
            self.await_step()
            if not self._ledgers:  # nobody wants what it was computed of
                outcome = outcome._replace(losses=())
            self._pending = outcome, step

    def await_step(self) -> None:
        """Wait for the results of the last step, and report them."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self._report(*pending)

    def drop_pending(self) -> None:
        """Forget a step whose results have not been read."""
        self._pending = None

    def last_step(self) -> Step:
        """Return the last step, and wait for its results."""
        self.await_step()
        if self._last is None:
            raise RuntimeError("no minibatch was trained yet")
        return self._last

    def _report(self, outcome: Outcome, step: Step) -> None:
        """Read the results of a step, and report them."""
        loss = float(outcome.loss)
        if not self._model.loss_scales and not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss was {loss} in step {step.step}, which changed the parameters"
            )
        metric = None if outcome.metric is None else float(outcome.metric)
        noise_scale, gradient_norm = None, None
        if outcome.norms is not None:
            gradient_norm = math.sqrt(float(outcome.norms.together))
        if self._noise is not None:
            if outcome.norms is not None and self._noise.is_due(step.step - 1):
                self._noise.add(outcome.norms, step.num_samples)
            noise_scale = self._noise.value
        # This takes a fifth of what _replace takes.
        self._last = Step(*step[:3], loss, metric, *step[5:8], noise_scale, gradient_norm)
        self._detect_mean(self._last)
        for ledger in self._ledgers:
            for minibatch, losses in outcome.losses:
                ledger.record(minibatch, losses, step.step)  # type: ignore[arg-type] # it checks
        for writer in self.writers:
            writer.update(self._last)

    def _detect_mean(self, step: Step) -> None:
        detector = self._mean_detector
        if detector is not None and detector.is_mean(step.loss, step.num_samples):
            self._mean_detector = None
            warnings.warn(
                "the loss does not grow with the number of label samples: the criterion seems "
                "to return their mean, but must return their sum",
                stacklevel=5,  # who called train_minibatch
            )


def _listening(writers: Sequence[Any], workers: Workers) -> list[ProgressWriter]:
    """Return the writers that this worker reports to."""
    for writer in writers:
        if not isinstance(writer, ProgressWriter):
            raise ArgumentTypeError(
                f"progress_writers must have the methods update and write, got {writer!r}"
            )
    return [
        writer
        for writer in writers
        if workers.rank == 0 or getattr(writer, "every_worker", False)
        if workers.counts or not isinstance(writer, StepLog)  # another has the same data
    ]


def _scheduled(model: TrainedModel) -> dict[str, Callable[[], float]]:
    """Return functions that read the values which may change between steps, by name."""
    readers: dict[str, Callable[[], float]] = {}
    for i, learner in enumerate(model.learners):
        suffix = f"[{i}]" if len(model.learners) > 1 else ""
        readers[f"learning_rate{suffix}"] = partial(getattr, learner, "learning_rate")
        for name, schedule in learner.schedules().items():
            readers[f"{name}{suffix}"] = partial(learner.pace.value, schedule)
    for i, scale in enumerate(model.loss_scales):
        suffix = f"[{i}]" if len(model.loss_scales) > 1 else ""
        readers[f"loss_scale{suffix}"] = partial(getattr, scale, "loss_scale")
    return readers
