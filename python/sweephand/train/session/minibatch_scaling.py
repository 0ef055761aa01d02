"""Minibatches that grow at the ends of epochs, as trials that leave no trace allow it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sweephand.base.checks import check_int, check_number
from sweephand.errors import LossScaleError
from sweephand.source.schedules import StepSchedule
from sweephand.train.records import Averages
from sweephand.train.session.settings import Frequency
from sweephand.train.session.training_run import NEVER, Activity, TrainingRun
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
        is_finite = train_minibatches(run, next_minibatches(run, size, num_minibatches))
    return window.average_loss if is_finite else math.nan


def train_minibatches(run: TrainingRun, minibatches: Iterator[tuple[Data, int]]) -> bool:
    """Train minibatches, and return False if that fails."""
    try:
        for minibatch, num_samples in minibatches:
            run.trainer.train_minibatch(minibatch, num_samples)
        run.trainer.await_step()
    except (FloatingPointError, LossScaleError):
        return False
    return True


def next_minibatches(run: TrainingRun, size: int, count: int) -> Iterator[tuple[Data, int]]:
    """Yield minibatches, as many as there are until the end of data."""
    for _ in range(count):
        run.feed.raise_if_preempted()
        minibatch, num_samples = run.feed.next(run.source, size)
        if not minibatch:
            return
        yield minibatch, num_samples
