"""Trials with minibatches of other sizes, which leave no trace."""

import math
from collections.abc import Iterator

from sweephand.errors import LossScaleError
from sweephand.train.progress.averages import Averages
from sweephand.train.session.training_run import TrainingRun
from sweephand.train.trainer.noise_scale import noise_scale
from sweephand.train.trainer.trained_model import Data


def trial_loss(run: TrainingRun, size: int, num_minibatches: int) -> float:
    """Train some minibatches of a size, and return their loss, or NaN if that fails."""
    window = Averages()
    with run.without_trace():
        run.trainer.writers = [window]
        try:
            for minibatch, num_samples in _minibatches(run, size, num_minibatches):
                run.trainer.train_minibatch(minibatch, num_samples)
            run.trainer.await_step()
        except (FloatingPointError, LossScaleError):
            return math.nan
    return window.average_loss


def trial_noise_scale(run: TrainingRun, size: int, num_minibatches: int) -> float:
    """Return the noise scale of some minibatches of a size, or NaN if there are too few."""
    sizes = []

    def minibatches() -> Iterator[tuple[Data, int]]:
        for minibatch, num_samples in _minibatches(run, size, num_minibatches):
            if num_samples:
                sizes.append(num_samples)
                yield minibatch, num_samples

    with run.without_trace():
        norms, together = run.trainer.model.squared_norms(minibatches())
    return noise_scale(norms, sizes, together) if len(sizes) > 1 else math.nan


def _minibatches(run: TrainingRun, size: int, count: int) -> Iterator[tuple[Data, int]]:
    """Yield minibatches, as many as there are until the end of data."""
    for _ in range(count):
        run.feed.raise_if_preempted()
        minibatch, num_samples = run.feed.next(run.source, size)
        if not minibatch:
            return
        yield minibatch, num_samples
