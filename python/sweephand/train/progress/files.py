"""Progress in files: CSV, lines of JSON, and what TensorBoard shows."""

import csv
import json
from pathlib import Path
from typing import Any, TextIO

from sweephand.train.arguments import check_path
from sweephand.train.progress.progress import PeriodicWriter, Record

_COLUMNS = (
    "kind", "step", "samples", "loss", "metric", "num_samples", "num_steps", "num_skipped",
    "samples_per_second", "waiting", "num_minibatches",
)  # fmt: skip


class JSONLProgressWriter(PeriodicWriter):
    """Append every record to a file, as one line of JSON.

    Parameters
    ----------
    path : path
    freq, first : int
        As for `PeriodicWriter`.
    """

    def __init__(self, path: str | Path, freq: int | None = 100, first: int = 0) -> None:
        super().__init__(freq, first)
        check_path("path", path)
        self._path = Path(path)

    def write(self, record: Record) -> None:
        """Append a record."""
        line = {"kind": record.kind, "step": record.step, "samples": record.samples}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | dict(record.figures)) + "\n")


class CSVProgressWriter(PeriodicWriter):
    """Append every record of averages to a table.

    Its columns are kind, step, samples, loss, metric, num_samples, num_steps, num_skipped,
    samples_per_second, waiting and num_minibatches, as `Record` says; what a record lacks is
    empty, and a table that is there keeps the columns that it has. Changes and events are no
    averages: a `JSONLProgressWriter` has them too, and figures of any other name.

    Parameters
    ----------
    path : path
    freq, first : int
        As for `PeriodicWriter`.
    """

    def __init__(self, path: str | Path, freq: int | None = 100, first: int = 0) -> None:
        super().__init__(freq, first)
        check_path("path", path)
        self._path = Path(path)

    def write(self, record: Record) -> None:
        """Append a record."""
        if record.kind in ("change", "event"):
            return
        row = {"kind": record.kind, "step": record.step, "samples": record.samples}
        with self._path.open("a+", encoding="utf-8", newline="") as file:
            columns = _columns_of(file)
            table = csv.DictWriter(
                file, columns or _COLUMNS, extrasaction="ignore", lineterminator="\n"
            )
            if not columns:
                table.writeheader()
            table.writerow(row | dict(record.figures))


def _columns_of(file: TextIO) -> list[str]:
    """Return the columns that a table has, none if it is empty."""
    file.seek(0)
    columns = next(csv.reader(file), [])
    if columns and columns[:3] != list(_COLUMNS[:3]):
        raise ValueError(
            f"{file.name} is no table of progress: its columns are {', '.join(columns[:5])}"
        )
    return columns


class TensorBoardProgressWriter(PeriodicWriter):
    """Write what TensorBoard shows, with training steps on the x-axis.

    Averages of minibatches are ``minibatch/avg_loss`` and ``minibatch/avg_metric``, summaries
    ``summary/avg_loss`` and so on, those of validation and test data
    ``summary/validation_avg_loss`` and ``summary/test_avg_loss``. Changing values have their
    own name.

    Parameters
    ----------
    freq : int or None
        Minibatches that are averaged.
    log_dir : path
        Where the event file is written.
    rank : int, optional
        This worker's number: it writes whatever it is. By default worker 0 alone writes.
    """

    def __init__(
        self, freq: int | None = None, log_dir: str | Path = ".", rank: int | None = None
    ) -> None:
        super().__init__(freq)
        self.every_worker = rank is not None
        self._writer = _event_file_writer(Path(log_dir), rank)

    def write(self, record: Record) -> None:
        """Write the figures of a record."""
        if record.kind == "event":
            return
        for name, value in record.figures.items():
            if not isinstance(value, str):
                self._writer.add_event(_event(_tag(record.kind, name), value, record.step))
        if record.kind != "training":
            self._writer.flush()

    def close(self) -> None:
        """Write what is not written yet, and close the file."""
        self._writer.close()


def _tag(kind: str, name: str) -> str:
    name = {"loss": "avg_loss", "metric": "avg_metric"}.get(name, name)
    prefixes = {
        "training": "minibatch/",
        "summary": "summary/",
        "validation": "summary/validation_",
        "test": "summary/test_",
    }
    return prefixes.get(kind, "") + name


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
