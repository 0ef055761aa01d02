"""The critical batch size: how far the minibatch can grow without harm, by branches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from sweephand import MinibatchSource, Trainer, minibatch_size_schedule
from sweephand.extend import (
    Activity,
    Data,
    Frequency,
    FrequencySpec,
    MinibatchFeed,
    Preemption,
    TrainingRun,
    check_int,
    check_kind,
    check_number,
    check_source,
    next_minibatches,
    train_minibatches,
)
from sweephand.train import Step

ScalingRule: TypeAlias = Literal["sqrt", "linear"]

LEAST_STEPS = 8  # of a branch


class BatchSizeBranch(NamedTuple):
    """Result of training with minibatches of one size.

    Attributes
    ----------
    minibatch_size : int
        In samples.
    rate_factor : float
        Ratio of the rate of the mean gradient to that of the first branch.
    num_steps : int
        Number of trained minibatches.
    loss : float
        The smoothed loss per label sample at the end; NaN if training failed.

    Examples
    --------
    >>> import sweephand as sh
    >>> branch = sh.train.BatchSizeBranch(128, rate_factor=2.0, num_steps=50, loss=0.7)
    >>> branch.minibatch_size * branch.num_steps
    6400
    """

    minibatch_size: int
    rate_factor: float
    num_steps: int
    loss: float


@dataclass(frozen=True)
class BatchSizeBranches:
    """Branches of training with minibatches of B, 2 B, 4 B and larger.

    Attributes
    ----------
    branches : tuple of BatchSizeBranch
        Up to the first one whose loss is above the tolerance.
    tolerance : float
        Relative excess over the first branch's loss that is allowed.

    Examples
    --------
    >>> import sweephand as sh
    >>> found = sh.train.BatchSizeBranches((
    ...     sh.train.BatchSizeBranch(64, 1.0, 400, 2.0),
    ...     sh.train.BatchSizeBranch(128, 1.41, 200, 2.01),
    ...     sh.train.BatchSizeBranch(256, 2.0, 100, 2.2),
    ... ), tolerance=0.01)
    >>> found.critical_batch_size, found.is_lower_bound
    (128, False)
    """

    branches: tuple[BatchSizeBranch, ...]
    tolerance: float

    @property
    def critical_batch_size(self) -> int | None:
        """The largest size that did as well as the first; None if that failed itself."""
        fitting = [one.minibatch_size for one in self.branches if self.is_within(one)]
        return fitting[-1] if fitting else None

    @property
    def is_lower_bound(self) -> bool:
        """True if all sizes did as well: the critical size may be larger."""
        return all(map(self.is_within, self.branches))

    def is_within(self, branch: BatchSizeBranch) -> bool:
        """Return True if a branch did as well as the first, within the tolerance."""
        base = self.branches[0].loss
        return branch.loss <= base + self.tolerance * abs(base)  # not if one is NaN

    def __str__(self) -> str:
        """Return all losses as a line."""
        losses = ", ".join(f"{one.loss:.6g} at {one.minibatch_size}" for one in self.branches)
        size = self.critical_batch_size
        found = "none is found" if size is None else f"it is {size}"
        at_least = " or more" if size is not None and self.is_lower_bound else ""
        return f"critical batch size: {found}{at_least}; the loss is {losses}"


@dataclass(eq=False)
class CriticalBatchSize(Activity):
    """Measurement of the largest harmless minibatch, by branches from the present moment.

    It is an activity of a session, or measures by itself.

    Each branch trains the same ``num_samples`` label samples from the same moment, with
    minibatches of the present size B, then 2 B, 4 B and so on. Its smoothed loss at the end is
    compared with that of B. The critical size is the largest one whose loss, and that of all
    before it, is within the tolerance. Losses are smoothed: after an eighth of ``num_samples``
    one weighs 1/e. The branches leave no trace: parameters, learners, loss
    scale, source, random states, ledgers, progress and counters are restored bit for bit, and
    training continues with its size and rates. They cost ``num_samples`` each.

    The loss of a minibatch is measured before its step, which is a disadvantage for large ones
    while the loss falls fast: let ``num_samples`` be many times the largest size.

    Parameters
    ----------
    num_samples : int
        Label samples of a branch. Sizes with fewer than 8 minibatches in it are not tried.
    max_size : int
        The largest size to try, in samples.
    tolerance : float
        Relative excess over the loss of B that is allowed.
    learning_rate_rule : {"sqrt", "linear"}
        Growth of the rate of the mean gradient with k B: by the root of k, as suits Adam and
        similar optimizers, or by k, as suits SGD. Rates with a reference size, which are linear
        in the minibatch, are accounted for. Momenta stay those of their schedules.
    frequency : None, int or (int, unit)
        Frequency of the measurement in a session, as of other actions. None: once, at its end.

    Attributes
    ----------
    branches : BatchSizeBranches or None
        Findings of the last measurement in a session.

    References
    ----------
    Merrill et al. 2025, "Critical batch size revisited: a simple empirical approach to
    large-batch language model training".

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"labels": np.float32([1, 2, 3, 4] * 100)})
    >>> model = {"mean": np.zeros(1, np.float32)}
    >>> def squared_error(model, minibatch):
    ...     error = model["mean"] - minibatch["labels"].values
    ...     return float(error @ error), [2 * error.sum(keepdims=True)]
    >>> trainer = sh.Trainer(model, squared_error, sh.numpy.SGD(model, 0.01))
    >>> options = {"learning_rate_rule": "linear", "tolerance": 0.05}
    >>> measuring = sh.train.CriticalBatchSize(1600, **options)
    >>> found = measuring.measure(trainer, sh.MinibatchSource(corpus), 4)
    >>> [(one.minibatch_size, one.num_steps) for one in found.branches[:3]]
    [(4, 400), (8, 200), (16, 100)]
    >>> found.critical_batch_size > 8, model["mean"], trainer.consumed.steps
    (True, array([0.], dtype=float32), 0)
    """

    num_samples: int
    max_size: int = 2**20
    tolerance: float = 0.01
    learning_rate_rule: ScalingRule = "sqrt"
    frequency: FrequencySpec = (1, "epoch")

    name = "critical batch size"
    is_optional = True
    is_final = True

    def __post_init__(self) -> None:
        check_int("num_samples", self.num_samples)
        check_int("max_size", self.max_size)
        if not 0 <= check_number("tolerance", self.tolerance) < math.inf:
            raise ValueError(f"tolerance must be at least 0, got {self.tolerance!r}")
        if self.learning_rate_rule not in ("sqrt", "linear"):
            raise ValueError(
                "learning_rate_rule must be 'sqrt' or 'linear', got "
                f"{self.learning_rate_rule!r}"
            )
        super().__init__(frequency=Frequency.parse("frequency", self.frequency))
        self.branches: BatchSizeBranches | None = None

    def bind(self, run: TrainingRun) -> None:
        """Begin anew with a run, or raise ValueError if it allows no measurement."""
        super().bind(run)
        self.check_sizes(run.trainer, max(size for _, size in run.sizes.steps))
        self.branches = None

    def act(self) -> None:
        """Measure from the present moment, and report it."""
        run = self.run
        self.branches = self.branch(run, run.minibatch_size)
        self.done()
        size = self.branches.critical_batch_size
        if size is not None:
            run.trainer.report("change", {"critical_batch_size": size})
        if self.branches.branches[0].num_steps:
            run.announce(str(self.branches))
        else:
            run.announce("no data are left to measure the critical batch size with")

    def measure(
        self, trainer: Trainer, mb_source: MinibatchSource, mb_size: int
    ) -> BatchSizeBranches:
        """Measure from the present moment of a trainer and its source.

        Parameters
        ----------
        mb_size : int
            The size of the first branch, in samples over all workers.

        Raises
        ------
        ValueError
            If a branch would have too few minibatches, or something else sets the rates.
        """
        check_kind("trainer", trainer, Trainer)
        check_source("mb_source", mb_source)
        self.check_sizes(trainer, check_int("mb_size", mb_size))
        feed = MinibatchFeed(trainer, Preemption(is_wanted=False), lambda: None)
        sizes = minibatch_size_schedule(mb_size)
        run = TrainingRun(trainer, mb_source, feed, Frequency(0), sizes)
        with trainer.model.workers:
            trainer.reporter.await_step()
            found = self.branch(run, mb_size)
        trainer.pause()
        return found

    def check_sizes(self, trainer: Trainer, size: int) -> None:
        """Raise ValueError if minibatches of a size, or a trainer, allow no measurement."""
        if size * LEAST_STEPS > self.num_samples:
            raise ValueError(
                f"num_samples must be at least {LEAST_STEPS} minibatches of {size}, got "
                f"{self.num_samples}"
            )
        if any(learner.pace.schedule is None for learner in trainer.model.learners):
            raise ValueError(
                "a learner without a schedule of learning rates has no critical batch size: "
                "its rates are set by others, and would not fit other sizes"
            )

    def branch(self, run: TrainingRun, present: int) -> BatchSizeBranches:
        """Return the results of the branches of a run with minibatches of a present size."""
        found = BatchSizeBranches((), self.tolerance)
        for size in self._sizes(present):
            growth = size / present
            factor = growth if self.learning_rate_rule == "linear" else math.sqrt(growth)
            loss = SmoothedLoss(self.num_samples / 8)
            with run.without_trace(loss.update):
                for learner in run.trainer.model.learners:
                    # Rates with a reference size grow with the minibatch by themselves.
                    is_linear = learner.pace.reference_size is not None
                    learner.pace.factor *= factor / growth if is_linear else factor
                minibatches = _minibatches(run, size, self.num_samples)
                is_finite = train_minibatches(run, minibatches)
            value = loss.value if is_finite else math.nan
            branch = BatchSizeBranch(size, factor, loss.num_steps, value)
            found = BatchSizeBranches((*found.branches, branch), self.tolerance)
            if not found.is_within(branch):
                break
        return found

    def _sizes(self, present: int) -> Iterator[int]:
        yield present
        size = 2 * present
        while size <= min(self.max_size, self.num_samples // LEAST_STEPS):
            yield size
            size *= 2


def _minibatches(run: TrainingRun, size: int, num_samples: int) -> Iterator[tuple[Data, int]]:
    """Yield minibatches of a size until their label samples reach a number."""
    run.size = size
    end = run.count("sample") + num_samples
    while run.count("sample") < end:
        for minibatch, found in next_minibatches(run, run.request(end), 1):
            run.has_label_per_sequence = found == run.feed.num_sequences
            yield minibatch, found
            break
        else:
            return


class SmoothedLoss:
    """Loss of steps, smoothed over samples for minibatches of any size."""

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
