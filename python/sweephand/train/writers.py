"""Progress as lines of text, as a bar, and in files: CSV, JSON, and for TensorBoard."""

from __future__ import annotations

import csv
import io
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from sweephand.base.checks import check_path
from sweephand.run.writing import to_json, writing
from sweephand.train.records import Figures, PeriodicWriter, Record, tracker_figures

_COLUMNS = (
    "kind", "step", "samples", "loss", "metric", "num_samples", "num_steps", "num_skipped",
    "samples_per_second", "waiting", "num_minibatches", "gradient_noise_scale",
)  # fmt: skip
_KNOWN = {*_COLUMNS} - {"gradient_noise_scale"}
_TITLES = {"summary": "Summary", "validation": "Validation", "test": "Test"}


class ProgressPrinter(PeriodicWriter):
    """Print a line every `freq` minibatches, and for each summary and validation.

    Parameters
    ----------
    freq : int or None
        Minibatches between two lines; 0: after 1, 3, 7, 15, ... minibatches; None: no lines.
    first : int
        Number of minibatches at the start with a line each.
    tag : str
        Prefix of every line.
    log_to_file : path, optional
        Lines are appended to this file in place of the standard output.
    rank : int, optional
        This worker's number: it prints, and ``rank<r>`` is appended to the file's name. By
        default worker 0 alone prints.
    num_epochs : int, optional
        Number of all summaries, to show.
    metric_is_pct : bool
        Show the metric in percent.

    Examples
    --------
    >>> import sweephand as sh
    >>> printer = sh.ProgressPrinter(freq=1)  # progress_writers=printer of a Trainer
    >>> printer.update(sh.train.Step(1, 100, 100, 50.0, None, True, 0.1, 0.0))
     Minibatch[    1-    1]: loss = 0.5 * 100, 1000 samples/s, waiting 0%
    """

    def __init__(
        self,
        freq: int | None = None,
        first: int = 0,
        tag: str = "",
        log_to_file: str | Path | None = None,
        rank: int | None = None,
        num_epochs: int | None = None,
        metric_is_pct: bool = True,
    ) -> None:
        super().__init__(freq, first)
        self.every_worker = rank is not None
        self._tag = f"{tag}: " if tag else ""
        self._file = None if log_to_file is None else Path(log_to_file).expanduser()
        if self._file is not None and rank is not None:
            self._file = self._file.with_name(f"{self._file.name}rank{rank}")
        self._num_epochs = num_epochs
        self._metric_is_pct = metric_is_pct
        self._num_summaries = 0

    def write(self, record: Record) -> None:
        """Print a record."""
        line = self._tag + self._line(record)
        if self._file is None:
            print(line, flush=True)
            return
        with self._file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _line(self, record: Record) -> str:
        if record.kind == "event":
            return str(record.figures["message"])
        if record.kind == "change":
            changed = ", ".join(f"{name} = {_text(v)}" for name, v in record.figures.items())
            return f"{changed} from step {record.step} on"
        return f"{self._title(record)} {self._describe(record.figures)}"

    def _title(self, record: Record) -> str:
        if record.kind == "training":
            first = record.step - int(record.figures["num_steps"]) + 1
            return f" Minibatch[{first:>5}-{record.step:>5}]:"
        if record.kind == "summary":
            self._num_summaries += 1
            of = "" if self._num_epochs is None else f" of {self._num_epochs}"
            return f"Summary[{self._num_summaries}{of}], {record.samples} samples:"
        return f"{_TITLES[record.kind]} at {record.samples} samples:"

    def _describe(self, figures: Figures) -> str:
        parts = [f"loss = {_text(figures['loss'])} * {figures['num_samples']}"]
        if "metric" in figures:
            metric = float(figures["metric"])
            parts.append(f"metric = {metric:{'.2%' if self._metric_is_pct else '.6g'}}")
        if figures.get("num_skipped"):
            parts.append(f"{figures['num_skipped']} steps skipped and left out")
        if "samples_per_second" in figures:
            parts.append(f"{float(figures['samples_per_second']):.0f} samples/s")
            parts.append(f"waiting {float(figures['waiting']):.0%}")
        parts += [
            f"{name.replace('_', ' ')} {_text(value)}"
            for name, value in figures.items()
            if name not in _KNOWN
        ]
        return ", ".join(parts)


def _text(value: float | int | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class ProgressBar(ProgressPrinter):
    """Show a bar on a terminal, and plain lines elsewhere.

    Parameters
    ----------
    num_samples : int, optional
        Label samples of the whole training; without it the bar only counts.
    freq : int
        Steps between two updates of the bar, or between two lines.
    file : text file, optional
        The standard error by default.

    Examples
    --------
    >>> import io, sweephand as sh
    >>> out = io.StringIO()  # no terminal, so lines in place of a bar
    >>> bar = sh.train.ProgressBar(num_samples=200, freq=1, file=out)
    >>> bar.update(sh.train.Step(1, 100, 100, 50.0, None, True, 0.1, 0.0))
    >>> "loss = 0.5 * 100" in out.getvalue()
    True
    """

    def __init__(
        self, num_samples: int | None = None, freq: int = 100, file: TextIO | None = None
    ) -> None:
        super().__init__(freq, first=1)
        self._out = file
        self._num_samples = num_samples
        self._bar: Any = None  # of rich, on a terminal

    def write(self, record: Record) -> None:
        """Show a record."""
        file = sys.stderr if self._out is None else self._out
        if not file.isatty():
            print(self._line(record), file=file, flush=True)
            return
        bar = self._bar = self._bar or self._new_bar(file)
        if record.kind != "training":
            bar.console.print(self._line(record), highlight=False, markup=False)
            return
        text = self._describe(record.figures)
        bar.update(bar.task_ids[0], completed=record.samples, text=text, refresh=True)

    def close(self) -> None:
        """Stop updating the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _new_bar(self, file: TextIO) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        bar = Progress(
            TextColumn("{task.completed} samples"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}"),
            console=Console(file=file, force_jupyter=False),
        )
        bar.start()
        bar.add_task("training", total=self._num_samples, text="")
        return bar


class _FileWriter(PeriodicWriter):
    """Writer that appends to a file."""

    def __init__(self, path: str | Path, freq: int | None = 100, first: int = 0) -> None:
        super().__init__(freq, first)
        check_path("path", path)
        self._path = Path(path).expanduser()

    def _append(self, text: str) -> None:
        """Append lines, all of them or, where that fails, none."""
        kept = "the lines before this one are kept"
        with writing(self._path, kept), io.FileIO(self._path, "a+") as file:
            end = file.seek(0, os.SEEK_END)
            try:
                left = memoryview(text.encode())
                while left:
                    left = left[file.write(left) :]
            except BaseException:
                file.truncate(end)
                raise


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

    It has no changes, events and figures of names that are not known: a `JSONLProgressWriter`
    has. Missing figures are empty.

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
        text = io.StringIO()
        table = csv.DictWriter(text, _COLUMNS, extrasaction="ignore", lineterminator="\n")
        if not self._path.exists() or not self._path.stat().st_size:
            table.writeheader()
        table.writerow(row | dict(record.figures))
        self._append(text.getvalue())


class TensorBoardProgressWriter(PeriodicWriter):
    """Write summaries for TensorBoard, with training steps on the x-axis.

    Averages of minibatches are ``minibatch/avg_loss`` and so on, of summaries
    ``summary/avg_loss``, of validation and test data ``summary/validation_avg_loss`` and
    ``summary/test_avg_loss``. Changing values have their own name.

    Parameters
    ----------
    freq : int or None
        Minibatches that are averaged.
    log_dir : path
        The folder of the event file.
    rank : int, optional
        This worker's number: it writes. By default worker 0 alone writes.

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
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise ImportError(
                "TensorBoardProgressWriter needs TensorBoard: pip install "
                "'sweephand[tensorboard]'"
            ) from None
        suffix = "" if rank is None else f".rank{rank}"
        self._writer = EventFileWriter(str(Path(log_dir).expanduser()), filename_suffix=suffix)

    def write(self, record: Record) -> None:
        """Write the figures of a record; events are left out."""
        if record.kind == "event":
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        for tag, value in tracker_figures(record).items():
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            event = Event(wall_time=time.time(), step=record.step, summary=summary)
            self._writer.add_event(event)
        if record.kind != "training":
            self._writer.flush()

    def close(self) -> None:
        """Write waiting summaries, and close the file."""
        self._writer.close()
