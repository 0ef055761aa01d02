"""Cross-validation and the final test of a session."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from sweephand.source.source import MinibatchSource
from sweephand.train.checkpoint.read_state import decode
from sweephand.train.session.minibatch_feed import Preempted
from sweephand.train.session.settings import CrossValidationConfig, Frequency, TestConfig
from sweephand.train.session.training_run import NEVER, Activity, TrainingRun


class Evaluation(NamedTuple):
    """Averages over evaluation data, NaN where there are no label samples."""

    loss: float
    metric: float | None
    num_samples: int
    num_minibatches: int

    def figures(self) -> dict[str, float | int | str]:
        """Return the averages as the figures of a record."""
        figures = self._asdict()
        if self.metric is None:
            del figures["metric"]
        return figures


def evaluate(
    run: TrainingRun, source: MinibatchSource, size: int, max_samples: int | None
) -> Evaluation:
    """Evaluate a model, and restore the source to where it was.

    On at most `max_samples` label samples; None evaluates to the end of the source.
    """
    feed, trainer = run.feed, run.trainer
    before = source.get_checkpoint_state()
    loss, metric = 0.0, None
    seen = minibatches = 0
    try:
        with trainer.drawing_again(Preempted):  # it is evaluated again after the restore
            while max_samples is None or seen < max_samples:
                request = size if max_samples is None else min(size, max_samples - seen)
                minibatch, num_samples = feed.next(source, request)
                if not minibatch:
                    break
                feed.raise_if_preempted()
                minibatches += 1
                if not num_samples:
                    continue
                one_loss, one_metric = trainer.model.evaluate(minibatch)
                seen += num_samples
                loss += one_loss
                if one_metric is not None:
                    metric = one_metric + (metric or 0.0)
    finally:
        source.restore_from_checkpoint(before)
    if not seen:
        return Evaluation(math.nan, None, 0, minibatches)
    return Evaluation(loss / seen, None if metric is None else metric / seen, seen, minibatches)


class Validation(Activity):
    """Validate, and ask the callback for the end of training."""

    name = "validation"
    is_final = True

    def __init__(self, run: TrainingRun, config: CrossValidationConfig | None) -> None:
        often = NEVER if config is None else Frequency.parse("frequency", config.frequency)
        super().__init__(run, often)
        self._config = config
        self._source = None if config is None else config.minibatch_source

    def act(self) -> None:
        """Validate; a callback of any worker may end training."""
        result = self._evaluate() or Evaluation(0.0, None, 0, 0)
        index = self.done()
        callback = None if self._config is None else self._config.callback
        if callback is None:
            return
        error = result.loss if result.metric is None else result.metric
        answer = callback(index, error, result.num_samples, result.num_minibatches)
        if self.run.trainer.model.workers.any(answer is False):
            self.ended = "the callback of a validation asked for it"

    def epoch_loss(self) -> float:
        """Return the validation loss, or without validation data the training loss."""
        step, loss = self.run.validated or (None, math.nan)
        if self._source is not None and step == self.run.count("minibatch"):
            return loss
        result = self._evaluate()
        return self.run.averages["epoch"].average_loss if result is None else result.loss

    def session_state(self) -> dict[str, Any]:
        """Return why training ends."""
        return {"ended": self.ended}

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.ended = decode(str | None, state["ended"], "ended")

    def _evaluate(self) -> Evaluation | None:
        """Return the averages over the validation data; None if there are none."""
        config, source, run = self._config, self._source, self.run
        if config is None or source is None:
            return None
        size = config.minibatch_size
        result = evaluate(run, source, size, config.max_samples)
        run.validated = run.count("minibatch"), result.loss
        run.trainer.report("validation", result.figures())
        return result


class FinalTest(Activity):
    """Test the model at the end."""

    def __init__(self, run: TrainingRun, config: TestConfig | None) -> None:
        super().__init__(run)
        self._config = config

    def is_due_at_end(self) -> bool:
        """Return True if there is something to test, and data for it."""
        return self._config is not None and self.run.count("minibatch") > 0

    def act(self) -> None:
        """Test the model."""
        assert self._config is not None
        source, size = self._config.minibatch_source, self._config.minibatch_size
        result = evaluate(self.run, source, size, None)
        self.run.trainer.report("test", result.figures())
