"""Trials with minibatches of other sizes, which leave no trace."""

import math
from collections.abc import Iterator

from sweephand.errors import LossScaleError
from sweephand.train.progress.progress import Window
from sweephand.train.session.minibatch_scaling import noise_scale
from sweephand.train.session.training_run import Run
from sweephand.train.trainer.trained_model import Data


def trial_loss(run: Run, size: int, num_minibatches: int) -> float:
    """Train some minibatches of a size and return their loss; NaN if it cannot be trained."""
    window = Window()
    with run.without_trace():
        run.trainer.writers = [window]
        try:
            for minibatch, num_samples in _minibatches(run, size, num_minibatches):
                run.trainer.train_minibatch(minibatch, num_samples)
            run.trainer.settle()
        except (FloatingPointError, LossScaleError):
            return math.nan
    return window.average_loss


def trial_noise_scale(run: Run, size: int, num_minibatches: int) -> float:
    """Return the noise scale as some minibatches of a size show it; NaN if they do not."""
    sizes = []

    def minibatches() -> Iterator[tuple[Data, int]]:
        for minibatch, num_samples in _minibatches(run, size, num_minibatches):
            if num_samples:
                sizes.append(num_samples)
                yield minibatch, num_samples

    with run.without_trace():
        norms, together = run.trainer.model.squared_norms(minibatches())
    return noise_scale(norms, sizes, together) if len(sizes) > 1 else math.nan


def _minibatches(run: Run, size: int, count: int) -> Iterator[tuple[Data, int]]:
    """Yield minibatches, as many as there are until the end of data."""
    for _ in range(count):
        run.feed.raise_if_preempted()
        minibatch, num_samples = run.feed.next(run.source, size)
        if not minibatch:
            return
        yield minibatch, num_samples
