"""Cross-validation in a session."""

import math
from collections.abc import Mapping
from typing import Any

from sweephand.train.checkpoint.read_state import read_optional, read_text
from sweephand.train.session.activity import NEVER, Activity
from sweephand.train.session.evaluation import Evaluation, evaluate
from sweephand.train.session.evaluation_configs import CrossValidationConfig
from sweephand.train.session.frequency import Frequency
from sweephand.train.session.training_run import TrainingRun


class Validation(Activity):
    """Validate, and ask the callback for the end of training."""

    name = "validation"
    is_final = True

    def __init__(self, run: TrainingRun, config: CrossValidationConfig | None) -> None:
        often = NEVER if config is None else Frequency.parse("frequency", config.frequency)
        super().__init__(run.count, often)
        self._run = run
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
        if self._run.feed.agree(answer is False):
            self.ended = "the callback of a validation asked for it"

    def epoch_loss(self) -> float:
        """Return the validation loss, or without validation data the training loss."""
        step, loss = self._run.validated or (None, math.nan)
        if self._source is not None and step == self._run.count("minibatch"):
            return loss
        result = self._evaluate()
        return self._run.averages.epoch.average_loss if result is None else result.loss

    def session_state(self) -> dict[str, Any]:
        """Return why training ends."""
        return {"ended": self.ended}

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.ended = read_optional(read_text, "ended", state["ended"])

    def _evaluate(self) -> Evaluation | None:
        """Return the averages over the validation data; None if there are none."""
        config, source, run = self._config, self._source, self._run
        if config is None or source is None:
            return None
        size = config.minibatch_size
        result = evaluate(run.feed, run.trainer, source, size, config.max_samples)
        run.validated = run.count("minibatch"), result.loss
        run.trainer.report("validation", result.figures())
        return result
