"""Trials with minibatches of other sizes and rates, which leave no trace."""

import math
from collections.abc import Iterator

from sweephand.errors import LossScaleError
from sweephand.source.schedules.spec import minibatch_size_schedule
from sweephand.train.progress.averages import Averages
from sweephand.train.progress.record import Step
from sweephand.train.session.minibatch_size import SizeRequest
from sweephand.train.session.training_run import TrainingRun
from sweephand.train.trainer.part_norms import noise_scale
from sweephand.train.trainer.trained_model import Data


def trial_loss(run: TrainingRun, size: int, num_minibatches: int) -> float:
    """Train on minibatches of a size, and return their loss, or NaN if that fails."""
    window = Averages()
    with run.without_trace(window.update):
        is_finite = _train(run, _minibatches(run, size, num_minibatches))
    return window.average_loss if is_finite else math.nan


def trial_branch(
    run: TrainingRun,
    size: int,
    num_samples: int,
    growth: float,
    rate_factor: float,
    smoothing: float,
) -> tuple[int, float]:
    """Train on a number of label samples, and return steps and loss.

    The size and the rates of mean gradients grow by factors. The loss is smoothed over label
    samples, and NaN if training fails.
    """
    window = SmoothedLoss(smoothing)
    with run.without_trace(window.update):
        run.grow_rates(growth, rate_factor)
        is_finite = _train(run, _minibatches_of_samples(run, size, num_samples))
    return window.num_steps, window.value if is_finite else math.nan


def trial_noise_scale(run: TrainingRun, size: int, num_minibatches: int) -> float:
    """Return the noise scale at a minibatch size, or NaN if there are too few minibatches."""
    sizes = []

    def minibatches() -> Iterator[tuple[Data, int]]:
        for minibatch, num_samples in _minibatches(run, size, num_minibatches):
            if num_samples:
                sizes.append(num_samples)
                yield minibatch, num_samples

    with run.without_trace():
        norms, together = run.trainer.model.squared_norms(minibatches())
    return noise_scale(norms, sizes, together) if len(sizes) > 1 else math.nan


class SmoothedLoss:
    """Loss of steps, smoothed over samples for minibatches of any size.

    Attributes
    ----------
    num_steps : int
        How many steps there were.
    """

    def __init__(self, smoothing: float) -> None:
        self._smoothing = smoothing
        self._loss = 0.0
        self._samples = 0.0
        self.num_steps = 0

    @property
    def value(self) -> float:
        """The loss per label sample; NaN if there is none."""
        return self._loss / self._samples if self._samples else math.nan

    def update(self, step: Step) -> None:
        """Add a step, unless it was skipped."""
        self.num_steps += 1
        if step.applied:
            decay = math.exp(-step.num_samples / self._smoothing)
            self._loss = decay * self._loss + step.loss
            self._samples = decay * self._samples + step.num_samples


def _train(run: TrainingRun, minibatches: Iterator[tuple[Data, int]]) -> bool:
    """Train minibatches, and return False if that fails."""
    try:
        for minibatch, num_samples in minibatches:
            run.trainer.train_minibatch(minibatch, num_samples)
        run.trainer.await_step()
    except (FloatingPointError, LossScaleError):
        return False
    return True


def _minibatches_of_samples(
    run: TrainingRun, size: int, num_samples: int
) -> Iterator[tuple[Data, int]]:
    """Yield minibatches of a size until their label samples reach a number."""
    run.size = size
    end = run.count("sample") + num_samples
    request = SizeRequest(minibatch_size_schedule(size), end, cut=None)
    while not request.has_enough(run):
        for minibatch, found in _minibatches(run, request.size(run), 1):
            run.has_label_per_sequence = found == run.feed.num_sequences
            yield minibatch, found
            break
        else:
            return


def _minibatches(run: TrainingRun, size: int, count: int) -> Iterator[tuple[Data, int]]:
    """Yield minibatches, as many as there are until the end of data."""
    for _ in range(count):
        run.feed.raise_if_preempted()
        minibatch, num_samples = run.feed.next(run.source, size)
        if not minibatch:
            return
        yield minibatch, num_samples
