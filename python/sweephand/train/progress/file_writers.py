"""Progress in files: CSV tables, lines of JSON, and what TensorBoard shows."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

from sweephand.run.strict_json import to_json
from sweephand.run.writing import writing
from sweephand.train.arguments import check_path
from sweephand.train.progress.record import PeriodicWriter, Record, tracker_figures

_COLUMNS = (
    "kind", "step", "samples", "loss", "metric", "num_samples", "num_steps", "num_skipped",
    "samples_per_second", "waiting", "num_minibatches", "gradient_noise_scale",
)  # fmt: skip


class _FileWriter(PeriodicWriter):
    """A writer that appends to a file."""

    def __init__(self, path: str | Path, freq: int | None = 100, first: int = 0) -> None:
        super().__init__(freq, first)
        check_path("path", path)
        self._path = Path(path).expanduser()

    def _append(self, text: str) -> None:
        """Append lines, all of them or, where that fails, none."""
        with writing(self._path, "the lines before this one are kept"), self._open() as file:
            end = file.seek(0, os.SEEK_END)
            try:
                left = memoryview(text.encode())
                while left:
                    left = left[file.write(left) :]
            except BaseException:
                file.truncate(end)
                raise

    def _open(self) -> io.FileIO:
        return io.FileIO(self._path, "a+")


class JSONLProgressWriter(_FileWriter):
    """Append every record to a file, as one line of JSON.

    Parameters
    ----------
    path : path
    freq, first : int
        As for `PeriodicWriter`.

    Examples
    --------
    >>> import pathlib, sweephand as sh
    >>> writer = sh.JSONLProgressWriter("run.jsonl")  # progress_writers=writer of a Trainer
    >>> writer.write(sh.train.Record("event", 10, 640, {"message": "epoch 1 ended"}))
    >>> pathlib.Path("run.jsonl").read_text().rstrip()
    '{"kind": "event", "step": 10, "samples": 640, "message": "epoch 1 ended"}'
    """

    def write(self, record: Record) -> None:
        """Append a record."""
        line = {"kind": record.kind, "step": record.step, "samples": record.samples}
        self._append(to_json(line | dict(record.figures)) + "\n")


class CSVProgressWriter(_FileWriter):
    """Append every record of averages to a CSV table.

    Its columns are kind, step, samples, loss, metric, num_samples, num_steps, num_skipped,
    samples_per_second, waiting, num_minibatches and gradient_noise_scale, as in `Record`;
    missing figures are empty, and an existing table keeps its columns. Changes and events are
    no averages: a `JSONLProgressWriter` has them too, and figures of any other name.

    Parameters
    ----------
    path : path
    freq, first : int
        As for `PeriodicWriter`.

    Examples
    --------
    >>> import pathlib, sweephand as sh
    >>> writer = sh.CSVProgressWriter("run.csv")  # progress_writers=writer of a Trainer
    >>> writer.write(sh.train.Record("validation", 10, 640, {"loss": 0.5, "num_samples": 100}))
    >>> pathlib.Path("run.csv").read_text().splitlines()[1]
    'validation,10,640,0.5,,100,,,,,,'
    """

    def write(self, record: Record) -> None:
        """Append a record."""
        if record.kind in ("change", "event"):
            return
        row = {"kind": record.kind, "step": record.step, "samples": record.samples}
        columns = _columns_of(self._path)
        text = io.StringIO()
        table = csv.DictWriter(
            text, columns or _COLUMNS, extrasaction="ignore", lineterminator="\n"
        )
        if not columns:
            table.writeheader()
        table.writerow(row | dict(record.figures))
        self._append(text.getvalue())


def _columns_of(path: Path) -> list[str]:
    """Return the columns of a table; none of an empty or missing table."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            columns = next(csv.reader(file), [])
    except FileNotFoundError:
        return []
    if columns and columns[:3] != list(_COLUMNS[:3]):
        raise ValueError(
            f"{path} is no table of progress: its columns are {', '.join(columns[:5])}"
        )
    return columns


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
