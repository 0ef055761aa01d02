"""Averages of loss and metric over validation or test data."""

import math
from typing import NamedTuple

from sweephand.source.source import MinibatchSource
from sweephand.train.session.evaluation_configs import CrossValidationConfig, TestConfig
from sweephand.train.session.minibatch_feed import MinibatchFeed
from sweephand.train.session.preemption import Preempted
from sweephand.train.session.training_run import TrainingRun
from sweephand.train.trainer.trainer import Trainer


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
    feed: MinibatchFeed,
    trainer: Trainer,
    source: MinibatchSource,
    size: int,
    max_samples: int | None,
) -> Evaluation:
    """Evaluate a model, and restore the source to where it was.

    Of so many label samples at most, or of None to the end of the source.
    """
    stood = source.get_checkpoint_state()
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
        source.restore_from_checkpoint(stood)
    if not seen:
        return Evaluation(math.nan, None, 0, minibatches)
    return Evaluation(loss / seen, None if metric is None else metric / seen, seen, minibatches)


class Evaluator:
    """Validates and tests the model of a training run.

    Attributes
    ----------
    is_tested : bool
        Whether the model was tested since the last step.
    """

    def __init__(
        self,
        run: TrainingRun,
        cv_config: CrossValidationConfig | None,
        test_config: TestConfig | None,
    ) -> None:
        self._run = run
        self._cv_config = cv_config
        self._test_config = test_config
        self.is_tested = False

    def validate_and_ask(self) -> bool:
        """Validate, and return whether a callback of any worker ends training."""
        assert self._cv_config is not None
        result = Evaluation(0.0, None, 0, 0)
        if self._cv_config.minibatch_source is not None:
            result = self._validate(self._cv_config, self._cv_config.minibatch_source)
        index = self._run.done("validation")
        if self._cv_config.callback is None:
            return False
        error = result.loss if result.metric is None else result.metric
        answer = self._cv_config.callback(
            index, error, result.num_samples, result.num_minibatches
        )
        return self._run.feed.agree(answer is False)

    def epoch_loss(self) -> float:
        """Return the validation loss, or without validation data the training loss."""
        config = self._cv_config
        if config is None or config.minibatch_source is None:
            return self._run.averages.epoch.average_loss
        step, loss = self._run.validated or (None, math.nan)
        if step == self._run.count("minibatch"):
            return loss
        return self._validate(config, config.minibatch_source).loss

    def test(self) -> bool:
        """Test the model if that is wanted and was not just done; return whether it was."""
        config, run = self._test_config, self._run
        if config is None or self.is_tested or not run.count("minibatch"):
            return False
        size = config.minibatch_size
        result = evaluate(run.feed, run.trainer, config.minibatch_source, size, None)
        self.is_tested = True
        run.trainer.tell("test", result.figures())
        return True

    def _validate(self, config: CrossValidationConfig, source: MinibatchSource) -> Evaluation:
        run, size = self._run, config.minibatch_size
        result = evaluate(run.feed, run.trainer, source, size, config.max_samples)
        run.validated = run.count("minibatch"), result.loss
        run.trainer.tell("validation", result.figures())
        return result
