"""The records of training progress, and the writers that receive them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

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
