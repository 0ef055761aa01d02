"""Progress as experiment trackers show it: TensorBoard, Weights & Biases and MLflow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from sweephand.train.progress.periodic_writer import PeriodicWriter
from sweephand.train.progress.record import Record

_TAGS = {"loss": "avg_loss", "metric": "avg_metric"}
_PREFIXES = {
    "training": "minibatch/",
    "summary": "summary/",
    "validation": "summary/validation_",
    "test": "summary/test_",
}


class TensorBoardProgressWriter(PeriodicWriter):
    """Write summaries for TensorBoard, with training steps on the x-axis.

    Averages of minibatches are ``minibatch/avg_loss`` and ``minibatch/avg_metric``, summaries
    ``summary/avg_loss`` and so on, those of validation and test data
    ``summary/validation_avg_loss`` and ``summary/test_avg_loss``. Changing values have their
    own name.

    Parameters
    ----------
    freq : int or None
        Minibatches that are averaged.
    log_dir : path
        The folder of the event file.
    rank : int, optional
        This worker's number, which may be any: it writes. By default worker 0 alone writes.

    Examples
    --------
    >>> import sweephand as sh
    >>> writer = sh.TensorBoardProgressWriter(freq=10, log_dir="runs/first")  # doctest: +SKIP
    >>> trainer = sh.Trainer(model, criterion, learner, [writer])  # doctest: +SKIP
    """

    def __init__(
        self, freq: int | None = None, log_dir: str | Path = ".", rank: int | None = None
    ) -> None:
        super().__init__(freq)
        self.every_worker = rank is not None
        self._writer = _event_file_writer(Path(log_dir).expanduser(), rank)

    def write(self, record: Record) -> None:
        """Write the figures of a record; events are left out."""
        if record.kind == "event":
            return
        for tag, value in _figures_of(record).items():
            self._writer.add_event(_event(tag, value, record.step))
        if record.kind != "training":
            self._writer.flush()

    def close(self) -> None:
        """Write waiting summaries, and close the file."""
        self._writer.close()


class _TrackerWriter(PeriodicWriter):
    """A writer that gives the figures of a record to a tracker, by their tags."""

    def write(self, record: Record) -> None:
        """Give the figures of a record to the tracker; events are left out."""
        figures = _figures_of(record)
        if figures:
            self._log(figures | {"samples": record.samples}, record.step)

    @abstractmethod
    def _log(self, figures: Mapping[str, float | int], step: int) -> None:
        """Log figures of a step."""


class WandbProgressWriter(_TrackerWriter):
    """Log to Weights & Biases, with training steps on the x-axis.

    The names are those of `TensorBoardProgressWriter`, with ``samples``, the label samples
    since the start. The run is yours: it is not finished here.

    Parameters
    ----------
    freq : int or None
        Minibatches that are averaged.
    run : wandb run, optional
        The result of ``wandb.init``; by default the run that is active at the time of logging.

    Examples
    --------
    >>> import sweephand as sh
    >>> writer = sh.train.WandbProgressWriter(100, wandb.init(project="a"))  # doctest: +SKIP
    >>> trainer = sh.Trainer(model, criterion, learner, [writer])  # doctest: +SKIP
    """

    def __init__(self, freq: int | None = None, run: Any = None) -> None:
        super().__init__(freq)
        self._run = run if run is not None else _module("wandb", self)
        self._named: set[str] = set()

    def _log(self, figures: Mapping[str, float | int], step: int) -> None:
        # Records of one step come one after another, and changes before the step that they
        # hold for: a step of our own as x-axis takes them in any order, wandb's does not.
        for name in figures.keys() - self._named:
            self._run.define_metric(name, step_metric="step")
            self._named.add(name)
        self._run.log({**figures, "step": step})


class MLflowProgressWriter(_TrackerWriter):
    """Log metrics to MLflow, with training steps on the x-axis.

    The names are those of `TensorBoardProgressWriter`, with ``samples``, the label samples
    since the start. The run is yours: it is not ended here.

    Parameters
    ----------
    freq : int or None
        Minibatches that are averaged.
    run_id : str, optional
        The run to log to; by default the active one, which MLflow begins if there is none.

    Examples
    --------
    >>> import sweephand as sh
    >>> writer = sh.train.MLflowProgressWriter(100)  # doctest: +SKIP
    >>> trainer = sh.Trainer(model, criterion, learner, [writer])  # doctest: +SKIP
    """

    def __init__(self, freq: int | None = None, run_id: str | None = None) -> None:
        super().__init__(freq)
        self._mlflow = _module("mlflow", self)
        self._options = {} if run_id is None else {"run_id": run_id}

    def _log(self, figures: Mapping[str, float | int], step: int) -> None:
        self._mlflow.log_metrics(dict(figures), step=step, **self._options)


def _module(name: str, writer: object) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(
            f"{type(writer).__name__} needs {name}: pip install 'sweephand[{name}]'"
        ) from None


def _figures_of(record: Record) -> dict[str, float | int]:
    """Return the numbers of a record, by the names under which trackers show them."""
    prefix = _PREFIXES.get(record.kind, "")
    return {
        prefix + _TAGS.get(name, name): value
        for name, value in record.figures.items()
        if not isinstance(value, str)
    }


def _event_file_writer(folder: Path, rank: int | None) -> Any:
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError:
        raise ImportError(
            "TensorBoardProgressWriter needs TensorBoard: pip install 'sweephand[tensorboard]'"
        ) from None
    return EventFileWriter(str(folder), filename_suffix="" if rank is None else f".rank{rank}")


def _event(tag: str, value: float, step: int) -> Any:
    import time

    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
    return Event(wall_time=time.time(), step=step, summary=summary)
