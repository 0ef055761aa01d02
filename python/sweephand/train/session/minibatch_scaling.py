"""Minibatches that grow at the ends of epochs, as trials that leave no trace allow it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sweephand.base.checks import check_int, check_number
from sweephand.errors import LossScaleError
from sweephand.source.schedules import StepSchedule, minibatch_size_schedule
from sweephand.train.records import Averages, Step
from sweephand.train.session.settings import Frequency
from sweephand.train.session.training_run import NEVER, Activity, SizeRequest, TrainingRun
from sweephand.train.session.validation import check_steerable
from sweephand.train.trainer.trained_model import Data

GRAIN = 64  # larger sizes are multiples of it


@dataclass(frozen=True)
class MinibatchScaling:
    """Growth of the minibatch at the ends of epochs, after the sizes of its schedule.

    A trial leaves no trace: model, learners, loss scale, source, random generators and counters
    are restored. New sizes are at most ``max_size`` and twice the last one.
    From 64 on they are rounded to multiples of 64 below these limits.

    Trial sizes begin at the last size of the schedule, divided by the square
    root of the learning rate relative to that of the first epoch if it has fallen, but at half
    of the present size at least, and grow by the square root of 2. With each size
    ``trial_minibatches`` are trained, from the same model and place. The loss of the first is
    the base; the search ends at the first loss that is NaN or above the base by more than
    ``error_margin`` percent, and the size before it is taken.

    Parameters
    ----------
    max_size : int
        In samples.
    trial_minibatches : int
    error_margin : float
        In percent.
    frequency : int
        Epochs between two decisions.

    Examples
    --------
    >>> import sweephand as sh
    >>> scaling = sh.MinibatchScaling(max_size=8192, trial_minibatches=20, frequency=2)
    >>> scaling.error_margin  # mb_scaling=scaling of a training_session
    1.0
    """

    max_size: int = 2**20
    trial_minibatches: int = 500
    error_margin: float = 1.0
    frequency: int = 1

    def __post_init__(self) -> None:
        check_int("max_size", self.max_size)
        check_int("frequency", self.frequency)
        check_int("trial_minibatches", self.trial_minibatches)
        if not 0 <= check_number("error_margin", self.error_margin) < math.inf:
            raise ValueError(f"error_margin must be at least 0, got {self.error_margin!r}")

    def trial_sizes(self, scheduled: int, present: int, rate_ratio: float) -> Iterator[int]:
        """Yield the sizes to be tried, in ascending order.

        They depend on the last size of the schedule, on that of the last epoch, and on the rate
        relative to that of the first epoch.
        """
        limit = min(self.max_size, 2 * present)
        first = scheduled / math.sqrt(min(rate_ratio, 1.0)) if rate_ratio > 0 else limit
        size = max(first, present / 2)
        before = 0
        while before < limit:
            rounded = limit if size >= limit else min(round_size(size), limit)
            if rounded > before:
                yield rounded
            before = rounded
            size *= math.sqrt(2)

    def search(
        self, sizes: Iterator[int], present: int, loss_of: Callable[[int], float]
    ) -> int:
        """Return the largest size that converges as well as the first.

        `loss_of` makes a trial with a size and returns its loss. If not even the first size
        converges, the present one is returned.
        """
        best, base = present, math.nan
        for size in sizes:
            loss = loss_of(size)
            if math.isnan(base):
                base = loss
            if not loss <= base * (1 + self.error_margin / 100):  # also if it is NaN
                break
            best = size
        return best


class MinibatchGrowth(Activity):
    """Choose the size of minibatches for the next epochs, after the sizes of the schedule."""

    name = "scaling"

    def __init__(
        self, run: TrainingRun, scaling: MinibatchScaling | None, sizes: StepSchedule[int]
    ) -> None:
        often = NEVER if scaling is None else Frequency(scaling.frequency, "epoch")
        super().__init__(run, often)
        self._sizes = sizes
        self._scaling = scaling or MinibatchScaling()
        if scaling is not None:
            check_steerable(run.trainer)
            if any(one.pace.reference_size is None for one in run.trainer.model.learners):
                raise ValueError(
                    "minibatch scaling needs learning rates with a reference size: those of a "
                    "minibatch of any size would change their meaning with it"
                )

    def act(self) -> None:
        """Choose a size, once the schedule of sizes has come to its last."""
        run = self.run
        position = run.count("sample"), run.count("sweep")
        if self._sizes.is_last_at(*position):
            scheduled = self._sizes.at(*position)
            present = run.size or scheduled
            run.size = self._chosen(scheduled, present)
            if run.size != present:
                run.trainer.report("change", {"minibatch_size": run.size})
        self.done()

    def _chosen(self, scheduled: int, present: int) -> int:
        run, scaling = self.run, self._scaling
        trials = scaling.trial_minibatches
        sizes = scaling.trial_sizes(scheduled, present, run.rate / run.first_rate)
        return scaling.search(sizes, present, lambda size: trial_loss(run, size, trials))


def round_size(size: float) -> int:
    """Return a size as a multiple of 64, or below 64 as a whole number."""
    return round(size / GRAIN) * GRAIN if size >= GRAIN else max(1, round(size))


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
    request = SizeRequest(minibatch_size_schedule(size), end)
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
