"""Progress as lines of text."""

from pathlib import Path

from sweephand.train.progress.periodic_writer import PeriodicWriter
from sweephand.train.progress.record import Record

_KNOWN = {
    *("loss", "metric", "num_samples", "num_steps", "num_skipped", "num_minibatches"),
    *("samples_per_second", "waiting"),
}
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
        Lines are appended to this file in place of the standard output. If a rank is given,
        ``rank<r>`` is appended to its name.
    rank : int, optional
        This worker's number, which may be any: it prints. By default worker 0 alone prints.
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
        self._print(self._tag + self._line(record))

    def _line(self, record: Record) -> str:
        if record.kind == "event":
            return str(record.figures["message"])
        if record.kind == "change":
            changed = ", ".join(f"{name} = {_text(v)}" for name, v in record.figures.items())
            return f"{changed} from step {record.step} on"
        return f"{self._title(record)} {describe(record, metric_is_pct=self._metric_is_pct)}"

    def _title(self, record: Record) -> str:
        if record.kind == "training":
            first = record.step - int(record.figures["num_steps"]) + 1
            return f" Minibatch[{first:>5}-{record.step:>5}]:"
        if record.kind == "summary":
            self._num_summaries += 1
            of = "" if self._num_epochs is None else f" of {self._num_epochs}"
            return f"Summary[{self._num_summaries}{of}], {record.samples} samples:"
        return f"{_TITLES[record.kind]} at {record.samples} samples:"

    def _print(self, line: str) -> None:
        if self._file is None:
            print(line, flush=True)
            return
        with self._file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def line_of(record: Record) -> str:
    """Return a record as a line of text."""
    return ProgressPrinter()._line(record)


def describe(record: Record, *, metric_is_pct: bool = True) -> str:
    """Return the figures of averages as text."""
    figures = record.figures
    parts = [f"loss = {_text(figures['loss'])} * {figures['num_samples']}"]
    if "metric" in figures:
        metric = float(figures["metric"])
        parts.append(f"metric = {metric:.2%}" if metric_is_pct else f"metric = {metric:.6g}")
    if figures.get("num_skipped"):
        parts.append(f"{figures['num_skipped']} steps skipped and left out")
    if "samples_per_second" in figures:
        parts.append(f"{float(figures['samples_per_second']):.0f} samples/s")
        parts.append(f"waiting {float(figures['waiting']):.0%}")
    parts += [
        f"{name.replace('_', ' ')} {_text(figures[name])}"
        for name in figures
        if name not in _KNOWN
    ]
    return ", ".join(parts)


def _text(value: float | int | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
