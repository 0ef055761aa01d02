"""Progress as TensorBoard shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sweephand.train.progress.periodic_writer import PeriodicWriter
from sweephand.train.progress.record import Record, tracker_figures


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
        for tag, value in tracker_figures(record).items():
            self._writer.add_event(_event(tag, value, record.step))
        if record.kind != "training":
            self._writer.flush()

    def close(self) -> None:
        """Write waiting summaries, and close the file."""
        self._writer.close()


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
