"""Records of training progress, the observers that receive them, and their reporter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from sweephand.base.checks import check_int
from sweephand.errors import ArgumentTypeError, shown
from sweephand.train.states import decode

if TYPE_CHECKING:
    from sweephand.train.learners.learner import Clock, Learner
    from sweephand.train.loss_scale.step_guard import StepGuard
    from sweephand.train.trainer.trained_model import Data, Outcome, PartNorms
    from sweephand.train.trainer.workers import Workers

RecordKind: TypeAlias = Literal["training", "summary", "validation", "test", "change", "event"]
Figures: TypeAlias = Mapping[str, float | int | str]


class Step(NamedTuple):
    """The outcome of one training step.

    Attributes
    ----------
    step : int
        Its number since the start of training, from 1.
    samples, num_samples : int
        Label samples over all workers, since the start and of the step.
    loss, metric : float
        Sums over them; the metric is None if the criterion has none.
    applied : bool
        True if the parameters were changed.
    seconds, waited_seconds : float
        Time since the end of the step before, and its part outside of the trainer.
    figures : dict
        Those that observers add, by name, such as ``gradient_noise_scale``.
    gradient_norm : float or None
        Of the mean gradient, unclipped and without a loss scale; None if not measured.

    Examples
    --------
    >>> import sweephand as sh
    >>> step = sh.train.Step(1, 64, 64, 32.0, None, True, 0.01, 0.001)
    >>> step.loss / step.num_samples
    0.5
    """

    step: int
    samples: int
    num_samples: int
    loss: float
    metric: float | None
    applied: bool
    seconds: float
    waited_seconds: float
    figures: Mapping[str, float] = {}
    gradient_norm: float | None = None


@dataclass(frozen=True)
class Record:
    """One entry of the progress log.

    Attributes
    ----------
    kind : {"training", "summary", "validation", "test", "change", "event"}
        Averages of a few minibatches, of all since the last summary, of validation and of test
        data; a changed value, such as the learning rate; an event.
    step, samples : int
        Training steps and label samples since the start.
    figures : dict
        For averages ``loss`` and ``metric`` per label sample, ``num_samples``; of training also
        ``num_steps``, ``num_skipped``, ``samples_per_second``, ``waiting``, the share of the
        time outside of the trainer, and those of observers. For an event ``message``.

    Examples
    --------
    >>> import sweephand as sh
    >>> record = sh.train.Record("validation", 10, 640, {"loss": 0.5, "num_samples": 100})
    >>> record.figures["loss"]
    0.5
    """

    kind: RecordKind
    step: int
    samples: int
    figures: Figures = field(default_factory=dict)


_TAGS = {"loss": "avg_loss", "metric": "avg_metric"}
_PREFIXES = {
    "training": "minibatch/",
    "summary": "summary/",
    "validation": "summary/validation_",
    "test": "summary/test_",
}


def tracker_figures(record: Record) -> dict[str, float | int]:
    """Return the numbers of a record, by the names under which trackers show them."""
    prefix = _PREFIXES.get(record.kind, "")
    return {
        prefix + _TAGS.get(name, name): value
        for name, value in record.figures.items()
        if not isinstance(value, str)
    }


@dataclass
class Averages:
    """Averages of training steps; of those that were applied for losses and metrics."""

    num_steps: int = 0
    num_skipped: int = 0
    num_samples: int = 0  # label samples of all steps
    num_averaged: int = 0  # those of steps that were applied
    loss: float = 0.0  # a sum
    metric: float | None = None
    seconds: float = 0.0
    waited_seconds: float = 0.0
    others: Mapping[str, float] = field(default_factory=dict)  # of observers, in the last step

    def update(self, step: Step) -> None:
        """Add a step."""
        self.num_steps += 1
        self.num_samples += step.num_samples
        self.seconds += step.seconds
        self.waited_seconds += step.waited_seconds
        self.others = step.figures
        if not step.applied:
            self.num_skipped += 1
            return
        self.num_averaged += step.num_samples
        self.loss += step.loss
        if step.metric is not None:
            self.metric = step.metric + (self.metric or 0.0)

    @property
    def average_loss(self) -> float:
        """The loss per label sample; NaN if there is none."""
        return self.loss / self.num_averaged if self.num_averaged else math.nan

    def figures(self) -> dict[str, float | int | str]:
        """Return the averages as the figures of a record."""
        figures: dict[str, float | int | str] = {"loss": self.average_loss}
        if self.metric is not None:
            figures["metric"] = self.metric / self.num_averaged
        figures["num_samples"] = self.num_averaged
        figures["num_steps"] = self.num_steps
        figures["num_skipped"] = self.num_skipped
        if self.seconds > 0:
            figures["samples_per_second"] = self.num_samples / self.seconds
            figures["waiting"] = self.waited_seconds / self.seconds
        return figures | dict(self.others)


class TakenStep(NamedTuple):
    """A training step as soon as it is taken, while its loss may still be on its way."""

    step: int  # its number since the start of training, from 1
    minibatch: Data  # this worker's share
    # the settings of the step: ``applied``, ``num_samples``, learning rates, loss scales
    values: Mapping[str, bool | float | str]
    # each part of the minibatch with the losses that the criterion returned for it
    losses: Sequence[tuple[Data, Any]]


class Observer:
    """Follows a training run; each method does nothing unless a subclass defines it."""

    # Steps between two of which it wants the norms of the gradients of sub-minibatches, the
    # same on all workers; 0: never.
    part_norms_every: int = 0
    is_shared: ClassVar[bool] = False  # each worker restores the state of the first
    shows_records: ClassVar[bool] = False  # events that nobody shows are logged

    def join(self, workers: Workers) -> bool:
        """Join the workers of a run; return False to observe nothing on this worker."""
        return True

    def begin(self, step: int) -> None:
        """Prepare for the step after ``step``, or raise before anything is changed."""

    def stepped(self, taken: TakenStep) -> None:
        """Receive a step as soon as it is taken, skipped steps included."""

    def figures(self, step: Step, norms: PartNorms | None) -> Mapping[str, float]:
        """Return figures of a step for all observers; norms if this one wanted them."""
        return {}

    def update(self, step: Step) -> None:
        """Receive the figures of a step with label samples."""

    def write(self, record: Record) -> None:
        """Receive a record."""

    def rewind(self, step: int) -> None:
        """Go back to the moment after ``step``."""

    def flush(self, *, to_disk: bool = False) -> None:
        """Write buffered data, and with ``to_disk`` return when they are durable."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state that checkpoints hold; empty if there is none."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; an empty one starts afresh."""


class ProgressWriter(Observer):
    """A receiver of progress, on worker 0 only unless its ``every_worker`` is true.

    Examples
    --------
    >>> import sweephand as sh
    >>> class Best(sh.train.ProgressWriter):
    ...     loss = float("inf")
    ...     def update(self, step):
    ...         self.loss = min(self.loss, step.loss / step.num_samples)
    >>> best = Best()  # progress_writers=best of a Trainer
    >>> best.update(sh.train.Step(1, 10, 10, 5.0, None, True, 0.1, 0.0))
    >>> best.loss
    0.5
    """

    every_worker = False
    shows_records = True

    def join(self, workers: Workers) -> bool:
        """Return True if it follows this worker."""
        return workers.rank == 0 or self.every_worker


class PeriodicWriter(ProgressWriter):
    """A progress writer that averages steps and writes a record every `freq` of them.

    Parameters
    ----------
    freq : int or None
        Steps between two records; 0: after 1, 3, 7, 15, ... steps; None: no such records.
    first : int
        Number of steps at the start with a record each.

    Examples
    --------
    >>> import sweephand as sh
    >>> class Lines(sh.train.PeriodicWriter):
    ...     def write(self, record):
    ...         print(record.kind, record.samples, record.figures["loss"])
    >>> lines = Lines(freq=2)  # progress_writers=lines of a Trainer
    >>> for n in (1, 2):
    ...     lines.update(sh.train.Step(n, 10 * n, 10, 5.0 * n, None, True, 0.1, 0.0))
    training 20 0.75
    """

    def __init__(self, freq: int | None = None, first: int = 0) -> None:
        self._freq = None if freq is None else check_int("freq", freq, least=0)
        self._first = check_int("first", first, least=0)
        self._averages = Averages()

    def update(self, step: Step) -> None:
        """Add a step, and write a record if it is time."""
        self._averages.update(step)
        if self._is_due(step.step):
            figures = self._averages.figures()
            self._averages = Averages()
            self.write(Record("training", step.step, step.samples, figures))

    def state_dict(self) -> dict[str, Any]:
        """Return the averages since the last record."""
        return asdict(self._averages)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the averages from a state; an empty one starts them afresh."""
        self._averages = decode(Averages, state) if state else Averages()

    def _is_due(self, step: int) -> bool:
        if self._freq is None:
            return False
        if self._freq == 0:
            return step & (step + 1) == 0
        return step % self._freq == 0 or step <= self._first


Reader: TypeAlias = Callable[[], float]
Listener: TypeAlias = Callable[[Step], object]


class StepReporter:
    """Reports steps, once their results are known, and values that change between them."""

    def __init__(
        self,
        writers: Sequence[Any],
        workers: Workers,
        learners: Sequence[Learner],
        guards: Sequence[StepGuard[Any]],
    ) -> None:
        for one in writers:
            if not isinstance(one, Observer):
                raise ArgumentTypeError(
                    f"progress_writers must be of sh.train.ProgressWriter, got {shown(one)}"
                )
        self._given: Sequence[Observer] = writers
        self.observers = [one for one in writers if one.join(workers)]
        self._listeners: list[Listener] = []  # they hear of steps after the observers
        self._is_first = workers.rank == 0
        self._is_guarded = bool(guards)
        self._scheduled = _scheduled(learners, guards)
        self._values: dict[str, float] = {}  # of the present step
        self._reported: dict[str, float] = {}  # as last reported
        self.pending: tuple[Outcome, Step] | None = None  # its results are on their way
        self._last: Step | None = None

    def report(self, kind: RecordKind, step: int, samples: int, figures: Figures) -> bool:
        """Send a record to the observers; return True if any of them shows it."""
        for one in self.observers:
            one.write(Record(kind, step, samples, figures))
        return any(one.shows_records for one in self.observers)

    def report_changes(self, clock: Clock) -> None:
        """Report the values that have changed for the next step."""
        if not self.observers:
            return
        for name, (read, least_change) in self._scheduled.items():
            value = self._values[name] = read()
            last = self._reported.get(name)
            if last is None or (value != last and not abs(value - last) < least_change()):
                self._reported[name] = value
                self.report("change", clock.steps + 1, clock.samples, {name: value})

    @contextmanager
    def reporting_only_to(self, calls: Sequence[Listener]) -> Iterator[None]:
        """Call only these with each step inside; afterwards as if nothing had been reported."""
        kept = self.observers, self._listeners, self._values, self._reported, self._last
        self.observers, self._listeners = [], list(calls)
        self._values, self._reported = {}, {}
        try:
            yield
        finally:
            self.observers, self._listeners, self._values, self._reported, self._last = kept

    @contextmanager
    def reporting_also_to(self, call: Listener) -> Iterator[None]:
        """Call this, too, with each step inside."""
        self._listeners.append(call)
        try:
            yield
        finally:
            self._listeners.remove(call)

    def settle(self) -> None:
        """Wait for the results of the last step, and until they are durable."""
        self.await_step()
        for one in self.observers:
            one.flush(to_disk=True)

    def state(self) -> list[dict[str, Any]]:
        """Return the state of each observer that was given; empty while others are called."""
        called = set(map(id, self.observers))  # they may be equal, or not comparable
        return [one.state_dict() if id(one) in called else {} for one in self._given]

    def restore(self, states: Sequence[Mapping[str, Any]], steps: int) -> None:
        """Go back to the moment after `steps`, with the states of worker 0's observers."""
        called = set(map(id, self.observers))
        for i, one in enumerate(self._given):
            if id(one) in called and (self._is_first or one.is_shared):
                one.load_state_dict(states[i] if i < len(states) else {})
        for one in self.observers:
            one.rewind(steps)

    def wants_part_norms(self, steps: int) -> bool:
        """Return True if an observer wants those of the step after `steps`."""
        return any(_is_due(one, steps) for one in self.observers)

    def stepped(
        self,
        minibatch: Data,
        step: int,
        num_samples: int,
        outcome: Outcome | None = None,
        *,
        applied: bool,
    ) -> None:
        """Report a step that was taken, with the values that held for it."""
        if self.observers:
            values = {"applied": applied, "num_samples": num_samples, **self._values}
            losses = () if outcome is None else outcome.losses
            taken = TakenStep(step, minibatch, values, losses)
            for one in self.observers:
                one.stepped(taken)

    def add(self, outcome: Outcome, step: Step) -> None:
        """Report a step, or the previous step while results of this step are on their way."""
        if isinstance(outcome.loss, float):
            self._report(outcome, step)
        else:
            self.await_step()
            self.pending = outcome._replace(losses=()), step  # which hold memory

    def await_step(self) -> None:
        """Wait for the results of the last step, and report them."""
        pending, self.pending = self.pending, None
        if pending is not None:
            self._report(*pending)

    def last_step(self) -> Step:
        """Return the last step, and wait for its results."""
        self.await_step()
        if self._last is None:
            raise RuntimeError("no minibatch was trained yet")
        return self._last

    def _report(self, outcome: Outcome, step: Step) -> None:
        """Read the results of a step, and report them."""
        loss = float(outcome.loss)
        if not self._is_guarded and not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss was {loss} in step {step.step}, which changed the parameters"
            )
        metric = None if outcome.metric is None else float(outcome.metric)
        norms = outcome.norms
        gradient_norm = None if norms is None else math.sqrt(float(norms.together))
        # This takes a fifth of the time of _replace.
        figures: dict[str, float] = {}
        self._last = Step(*step[:3], loss, metric, *step[5:8], figures, gradient_norm)
        for one in self.observers:
            is_due = norms is not None and _is_due(one, step.step - 1)
            figures.update(one.figures(self._last, norms if is_due else None))
        for one in self.observers:
            one.update(self._last)
        for call in self._listeners:
            call(self._last)


def _is_due(observer: Observer, steps: int) -> bool:
    every = observer.part_norms_every
    return every > 0 and steps % every == 0


def _scheduled(
    learners: Sequence[Learner], guards: Sequence[StepGuard[Any]]
) -> dict[str, tuple[Reader, Reader]]:
    """Return functions that read each value that may change, and the least change to report."""
    readers: dict[str, tuple[Reader, Reader]] = {}
    for i, learner in enumerate(learners):
        suffix = f"[{i}]" if len(learners) > 1 else ""
        readers[f"learning_rate{suffix}"] = (
            partial(getattr, learner, "learning_rate"),
            partial(getattr, learner.pace, "least_change"),
        )
        for name, schedule in learner.schedules().items():
            readers[f"{name}{suffix}"] = (
                partial(learner.pace.value, schedule),
                partial(getattr, schedule, "least_change"),
            )
    for i, guard in enumerate(guards):
        suffix = f"[{i}]" if len(guards) > 1 else ""
        readers[f"loss_scale{suffix}"] = partial(getattr, guard, "loss_scale"), float
    return readers
