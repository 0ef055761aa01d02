"""Progress in files: CSV tables and lines of JSON."""

import csv
from pathlib import Path
from typing import TextIO

from sweephand.strict_json import to_json
from sweephand.train.arguments import check_path
from sweephand.train.progress.periodic_writer import PeriodicWriter
from sweephand.train.progress.record import Record

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
    >>> writer.write(sh.Record("event", 10, 640, {"message": "epoch 1 ended"}))
    >>> pathlib.Path("run.jsonl").read_text().rstrip()
    '{"kind": "event", "step": 10, "samples": 640, "message": "epoch 1 ended"}'
    """

    def write(self, record: Record) -> None:
        """Append a record."""
        line = {"kind": record.kind, "step": record.step, "samples": record.samples}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(to_json(line | dict(record.figures)) + "\n")


class CSVProgressWriter(_FileWriter):
    """Append every record of averages to a CSV table.

    Its columns are kind, step, samples, loss, metric, num_samples, num_steps, num_skipped,
    samples_per_second, waiting, num_minibatches and gradient_noise_scale, as `Record` says;
    what a record lacks is empty, and a table that is there keeps the columns that it has.
    Changes and events are no averages: a `JSONLProgressWriter` has them too, and figures of any
    other name.

    Parameters
    ----------
    path : path
    freq, first : int
        As for `PeriodicWriter`.

    Examples
    --------
    >>> import pathlib, sweephand as sh
    >>> writer = sh.CSVProgressWriter("run.csv")  # progress_writers=writer of a Trainer
    >>> writer.write(sh.Record("validation", 10, 640, {"loss": 0.5, "num_samples": 100}))
    >>> pathlib.Path("run.csv").read_text().splitlines()[1]
    'validation,10,640,0.5,,100,,,,,,'
    """

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
    """Return the columns of a table; an empty one has none."""
    file.seek(0)
    columns = next(csv.reader(file), [])
    if columns and columns[:3] != list(_COLUMNS[:3]):
        raise ValueError(
            f"{file.name} is no table of progress: its columns are {', '.join(columns[:5])}"
        )
    return columns
