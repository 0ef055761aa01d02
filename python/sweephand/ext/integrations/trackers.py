"""Progress in Weights & Biases and in MLflow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from sweephand.extend import OptionalModule, tracker_figures
from sweephand.train import PeriodicWriter, Record


class _TrackerWriter(PeriodicWriter):
    """A writer that gives the figures of a record to a tracker, by their tags."""

    def write(self, record: Record) -> None:
        """Give the figures of a record to the tracker; events are left out."""
        figures = tracker_figures(record)
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
        self._run = run if run is not None else OptionalModule("wandb", extra="wandb")()
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
        self._mlflow = OptionalModule("mlflow", extra="mlflow")()
        self._options = {} if run_id is None else {"run_id": run_id}

    def _log(self, figures: Mapping[str, float | int], step: int) -> None:
        self._mlflow.log_metrics(dict(figures), step=step, **self._options)
