"""What training tells about itself, and to whom."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from sweephand.checks import check_int
from sweephand.train.checkpoint.read_state import read_counts

Kind: TypeAlias = Literal["training", "summary", "validation", "test", "change", "event"]
Figures: TypeAlias = Mapping[str, float | int | str]


class Step(NamedTuple):
    """What became of one training step.

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
        Whether the parameters were changed.
    seconds, waited_seconds : float
        Since the step before has ended, and how many of them passed outside of the trainer.
    """

    step: int
    samples: int
    num_samples: int
    loss: float
    metric: float | None
    applied: bool
    seconds: float
    waited_seconds: float


@dataclass(frozen=True)
class Record:
    """Something to write down.

    Attributes
    ----------
    kind : {"training", "summary", "validation", "test", "change", "event"}
        Averages of some minibatches; of all since the last summary; of a pass over validation
        data; over test data. A value that changed, such as the learning rate. A happening.
    step, samples : int
        When: training steps and label samples since the start.
    figures : dict
        For averages: ``loss`` and ``metric`` per label sample, ``num_samples``; of training
        also ``num_steps``, ``num_skipped``, which are left out of the averages,
        ``samples_per_second`` and ``waiting``, the share of the time that passed outside of the
        trainer. For an event ``message``.
    """

    kind: Kind
    step: int
    samples: int
    figures: Figures = field(default_factory=dict)


@runtime_checkable
class ProgressWriter(Protocol):
    """Who is told; only worker 0 tells, unless ``every_worker`` is there and true."""

    def update(self, step: Step) -> None:
        """Take notice of one training step."""

    def write(self, record: Record) -> None:
        """Write something down."""


@dataclass
class Window:
    """A progress writer that adds up steps, to average them.

    Attributes
    ----------
    num_steps, num_skipped : int
        All steps, and those among them that were skipped.
    num_samples : int
        Label samples of all steps.
    num_averaged : int
        Those of steps that were applied: of these are the losses and metrics.
    loss, metric : float
        Sums; the metric is None if there is none.
    seconds, waited_seconds : float
    """

    num_steps: int = 0
    num_skipped: int = 0
    num_samples: int = 0
    num_averaged: int = 0
    loss: float = 0.0
    metric: float | None = None
    seconds: float = 0.0
    waited_seconds: float = 0.0

    def update(self, step: Step) -> None:
        """Add a step."""
        self.num_steps += 1
        self.num_samples += step.num_samples
        self.seconds += step.seconds
        self.waited_seconds += step.waited_seconds
        if not step.applied:
            self.num_skipped += 1
            return
        self.num_averaged += step.num_samples
        self.loss += step.loss
        if step.metric is not None:
            self.metric = step.metric + (self.metric or 0.0)

    def write(self, record: Record) -> None:
        """Do nothing."""

    @property
    def average_loss(self) -> float:
        """The loss per label sample; NaN if there is none."""
        return self.loss / self.num_averaged if self.num_averaged else math.nan

    def figures(self) -> dict[str, float | int | str]:
        """Return what a record of training holds."""
        figures: dict[str, float | int | str] = {"loss": self.average_loss}
        if self.metric is not None:
            figures["metric"] = self.metric / self.num_averaged
        figures["num_samples"] = self.num_averaged
        figures["num_steps"] = self.num_steps
        figures["num_skipped"] = self.num_skipped
        if self.seconds > 0:
            figures["samples_per_second"] = self.num_samples / self.seconds
            figures["waiting"] = self.waited_seconds / self.seconds
        return figures


class PeriodicWriter(ABC):
    """A progress writer that averages steps and writes a record every so many.

    Parameters
    ----------
    freq : int or None
        Every so many steps; 0: after 1, 3, 7, 15, ... steps; None: no such records.
    first : int
        Also after each of the first so many steps.
    """

    def __init__(self, freq: int | None = None, first: int = 0) -> None:
        self._freq = None if freq is None else check_int("freq", freq, least=0)
        self._first = check_int("first", first, least=0)
        self._window = Window()

    def update(self, step: Step) -> None:
        """Add a step, and write a record if it is time."""
        self._window.update(step)
        if self._is_due(step.step):
            figures = self._window.figures()
            self._window = Window()
            self.write(Record("training", step.step, step.samples, figures))

    @abstractmethod
    def write(self, record: Record) -> None:
        """Write a record down."""

    def state_dict(self) -> dict[str, Any]:
        """Return what was averaged since the last record."""
        return asdict(self._window)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on averaging from a state; afresh if it is empty."""
        self._window = read_counts(Window, state) if state else Window()

    def _is_due(self, step: int) -> bool:
        if self._freq is None:
            return False
        if self._freq == 0:
            return step & (step + 1) == 0
        return step % self._freq == 0 or step <= self._first


def capture_windows(writers: Sequence[ProgressWriter]) -> list[dict[str, Any]]:
    """Return what each writer averages; nothing of those that do not average."""
    return [one.state_dict() if isinstance(one, PeriodicWriter) else {} for one in writers]


def restore_windows(
    writers: Sequence[ProgressWriter], states: Sequence[Mapping[str, Any]]
) -> None:
    """Let writers go on averaging; those that are new, or in another place, start afresh."""
    for i, writer in enumerate(writers):
        if isinstance(writer, PeriodicWriter):
            writer.load_state_dict(states[i] if i < len(states) else {})


class Stopwatch:
    """Measures what passes inside and outside of the trainer."""

    def __init__(self) -> None:
        self._left: float | None = None  # when the trainer was last left
        self._entered = 0.0

    def enter(self) -> None:
        """Note that the trainer is entered."""
        self._entered = time.perf_counter()

    def leave(self) -> tuple[float, float]:
        """Return the seconds since it was last left, and those before it was entered."""
        now = time.perf_counter()
        left = self._entered if self._left is None else self._left
        self._left = now
        return now - left, self._entered - left

    def forget(self) -> None:
        """Count nothing of what passed since the trainer was left: it was something else."""
        self._left = None
