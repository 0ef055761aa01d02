"""The records of training progress, and the observers and writers that receive them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    runtime_checkable,
)

from sweephand.base.checks import check_int
from sweephand.errors import ArgumentTypeError
from sweephand.train.states import decode

if TYPE_CHECKING:
    from sweephand.train.trainer.trained_model import Data, PartNorms
    from sweephand.train.trainer.workers import Workers

RecordKind: TypeAlias = Literal["training", "summary", "validation", "test", "change", "event"]
Figures: TypeAlias = Mapping[str, float | int | str]


class Step(NamedTuple):
    """The outcome of one training step.

    Attributes
    ----------
    step : int
        Its number since the start of training, from 1.
    samples : int
        Label samples since the start, those of this step and of skipped steps included.
    num_samples : int
        Label samples of the step, over all workers.
    loss, metric : float
        Sums over them; the metric is None if the criterion has none.
    applied : bool
        True if the parameters were changed.
    seconds, waited_seconds : float
        Time since the end of the step before, and its part outside of the trainer.
    figures : dict
        Those that observers add, by name, such as ``gradient_noise_scale``.
    gradient_norm : float or None
        Of the mean gradient over all workers, before any clipping and without a loss scale;
        None if it is not measured.

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
        Averages of a few minibatches; of all since the last summary; of a pass over validation
        data; over test data. A changed value, such as the learning rate. An event.
    step, samples : int
        Training steps and label samples since the start.
    figures : dict
        For averages: ``loss`` and ``metric`` per label sample, ``num_samples``; of training
        also ``num_steps``, ``num_skipped``, which are left out of the averages,
        ``samples_per_second`` and ``waiting``, the share of the time that passed outside of the
        trainer, and the figures that observers add. For an event ``message``.

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


@runtime_checkable
class ProgressWriter(Protocol):
    """A receiver of progress, on worker 0 only unless its ``every_worker`` is true.

    Examples
    --------
    >>> import sweephand as sh
    >>> class Best:
    ...     loss = float("inf")
    ...     def update(self, step):
    ...         self.loss = min(self.loss, step.loss / step.num_samples)
    ...     def write(self, record): ...
    >>> isinstance(Best(), sh.train.ProgressWriter)
    True
    """

    def update(self, step: Step) -> None:
        """Receive one training step."""

    def write(self, record: Record) -> None:
        """Receive one record."""


@dataclass
class Averages:
    """Averages of training steps."""

    # all steps, and those among them that were skipped
    num_steps: int = 0
    num_skipped: int = 0
    num_samples: int = 0  # label samples of all steps
    # those of steps that were applied: of these are the losses and metrics
    num_averaged: int = 0
    # sums; the metric is None if there is none
    loss: float = 0.0
    metric: float | None = None
    seconds: float = 0.0
    waited_seconds: float = 0.0
    # the figures that observers add, as the last step has them
    others: Mapping[str, float] = field(default_factory=dict)

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


class PeriodicWriter(ABC):
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

    @abstractmethod
    def write(self, record: Record) -> None:
        """Write one record."""

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


class TakenStep(NamedTuple):
    """A training step as soon as it is taken, while its loss may still be on its way.

    Attributes
    ----------
    step : int
        Its number since the start of training, from 1.
    minibatch : Minibatch or mapping
        This worker's share.
    values : dict
        The settings of the step: ``applied``, ``num_samples``, learning rates, loss scales.
    losses : sequence of (minibatch, losses)
        Each part of the minibatch with the losses that the criterion returned for it.
    """

    step: int
    minibatch: Data
    values: Mapping[str, bool | float | str]
    losses: Sequence[tuple[Data, Any]]


class Observer:
    """Follows a training run; each method does nothing unless a subclass defines it.

    Attributes
    ----------
    part_norms_every : int
        Steps between two of which it wants the norms of the gradients of sub-minibatches; 0:
        never. It must be the same on all workers.
    is_shared : bool
        True if its state is the same on all workers, so that each restores that of the first.
    """

    part_norms_every: int = 0
    is_shared: ClassVar[bool] = False

    @property
    def writer(self) -> Any:
        """The object that the user gave to the trainer."""
        return self

    def join(self, workers: Workers) -> bool:
        """Join the workers of a run; return False to observe nothing on this worker."""
        return True

    def begin(self, step: int) -> None:
        """Prepare for the step after ``step``, or raise before anything is changed."""

    def stepped(self, taken: TakenStep) -> None:
        """Receive a step as soon as it is taken, skipped steps included."""

    def figures(self, step: Step, norms: PartNorms | None) -> Mapping[str, float]:
        """Return figures of a step for all observers, in `Step.figures` and in averages.

        Norms are those of the step's sub-minibatches, if this observer wanted them.
        """
        return {}

    def measured(self, step: Step) -> None:
        """Receive the figures of a step with label samples."""

    def report(self, record: Record) -> bool:
        """Receive a record; return True if it is shown to the user."""
        return False

    def rewind(self, step: int) -> None:
        """Go back to the moment after ``step``."""

    def flush(self, *, to_disk: bool = False) -> None:
        """Write buffered data, and with ``to_disk`` return when they are durable."""

    def state(self) -> dict[str, Any]:
        """Return the state that checkpoints hold; empty if there is none."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; an empty one starts afresh."""


class WriterObserver(Observer):
    """Observer that passes steps and records on to a progress writer.

    It follows rank 0, or every worker if the writer's ``every_worker`` is true.
    """

    def __init__(self, writer: ProgressWriter) -> None:
        self._writer = writer

    @property
    def writer(self) -> ProgressWriter:
        """The progress writer."""
        return self._writer

    def join(self, workers: Workers) -> bool:
        """Return True if the writer follows this worker."""
        return workers.rank == 0 or bool(getattr(self._writer, "every_worker", False))

    def measured(self, step: Step) -> None:
        """Update the writer."""
        self._writer.update(step)

    def report(self, record: Record) -> bool:
        """Write a record."""
        self._writer.write(record)
        return True

    def state(self) -> dict[str, Any]:
        """Return the averages of a `PeriodicWriter`."""
        return self._writer.state_dict() if isinstance(self._writer, PeriodicWriter) else {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the averages of a `PeriodicWriter`."""
        if isinstance(self._writer, PeriodicWriter):
            self._writer.load_state_dict(state)


class StepListener(Observer):
    """Observer that calls a function with the figures of every step."""

    def __init__(self, call: Callable[[Step], object]) -> None:
        self._call = call

    def measured(self, step: Step) -> None:
        """Call the function."""
        self._call(step)


def as_observer(writer: object) -> Observer:
    """Return an observer as it is, and a progress writer as an observer."""
    if isinstance(writer, Observer):
        return writer
    if not isinstance(writer, ProgressWriter):
        raise ArgumentTypeError(
            f"progress_writers must have the methods update and write, got {writer!r}"
        )
    return WriterObserver(writer)
