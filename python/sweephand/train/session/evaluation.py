"""Averages of loss and metric over validation or test data."""

import math
from typing import NamedTuple

from sweephand.source.source import MinibatchSource
from sweephand.train.session.minibatch_feed import MinibatchFeed
from sweephand.train.session.preemption import Preempted
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
