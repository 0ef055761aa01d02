"""Observers of a training run, and progress writers as such observers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sweephand.errors import ArgumentTypeError
from sweephand.train.progress.record import PeriodicWriter, ProgressWriter, Record, Step

if TYPE_CHECKING:
    from sweephand.train.trainer.trained_model import Data, PartNorms
    from sweephand.train.trainer.workers import Workers


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
