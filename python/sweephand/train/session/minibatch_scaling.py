"""Minibatches that grow at the ends of epochs, as trials that leave no trace allow it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sweephand.base.checks import check_int, check_number
from sweephand.errors import LossScaleError
from sweephand.source.schedules import StepSchedule
from sweephand.train.records import Averages
from sweephand.train.session.training_run import NEVER, Activity, Frequency, TrainingRun
from sweephand.train.session.validation import check_steerable
from sweephand.train.trainer.trained_model import Data

GRAIN = 64  # larger sizes are multiples of it


@dataclass(frozen=True)
class MinibatchScaling:
    """Growth of the minibatch at the ends of epochs, after the sizes of its schedule.

    Trials with growing sizes begin from the same model and place, and leave no trace. The last
    size is taken before the loss is NaN or above that of the first trial by the margin.

    Parameters
    ----------
    max_size : int
        In samples; a size is also at most twice the last one.
    trial_minibatches : int
        Minibatches of a trial.
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

        They begin at the last size of the schedule, larger by the square root of the fall of
        the rate since the first epoch, but at least at half of the present size.
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
            scaling, ratio = self._scaling, run.rate / run.first_rate
            run.size = search(
                scaling.trial_sizes(scheduled, present, ratio),
                present,
                scaling.error_margin,
                lambda size: trial_loss(run, size, scaling.trial_minibatches),
            )
            if run.size != present:
                run.trainer.report("change", {"minibatch_size": run.size})
        self.done()


def search(
    sizes: Iterator[int], present: int, margin: float, loss_of: Callable[[int], float]
) -> int:
    """Return the largest size that converges as well as the first, else the present one."""
    best, base = present, math.nan
    for size in sizes:
        loss = loss_of(size)
        if math.isnan(base):
            base = loss
        if not loss <= base * (1 + margin / 100):  # also if it is NaN
            break
        best = size
    return best


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
        run.trainer.reporter.await_step()
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
