"""Progress as a bar: on a terminal, in a notebook, and as plain lines elsewhere."""

from __future__ import annotations

import sys
from html import escape
from importlib import import_module
from typing import Any, Protocol, TextIO

from sweephand.train.progress.periodic_writer import PeriodicWriter
from sweephand.train.progress.printer import describe, line_of
from sweephand.train.progress.record import Record


class _Bar(Protocol):
    """Display of the progress of training."""

    def update(self, samples: int, text: str) -> None:
        """Show how many samples were trained, and a text."""

    def write(self, line: str) -> None:
        """Write a line that stays."""

    def close(self) -> None:
        """Leave the bar as it is."""


class ProgressBar(PeriodicWriter):
    """Show a bar on a terminal and in a notebook, and plain lines elsewhere.

    Parameters
    ----------
    num_samples : int, optional
        Label samples of the whole training; without it the bar only counts.
    freq : int
        Steps between two updates of the bar, or between two lines.
    file : text file, optional
        The standard error by default, or the output of the cell in a notebook.

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
        self._file = file
        self._num_samples = num_samples
        self._bar: _Bar | None = None

    def write(self, record: Record) -> None:
        """Show a record."""
        if self._bar is None:
            self._bar = self._new_bar()
        if record.kind == "training" and not isinstance(self._bar, _Lines):
            self._bar.update(record.samples, describe(record))
        else:
            self._bar.write(line_of(record))

    def close(self) -> None:
        """Stop updating the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _new_bar(self) -> _Bar:
        if self._file is None and _is_notebook():
            return _NotebookBar(self._num_samples)
        file = sys.stderr if self._file is None else self._file
        return _TerminalBar(self._num_samples, file) if file.isatty() else _Lines(file)


class _Lines:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def update(self, samples: int, text: str) -> None:
        """Do nothing: every record is a line."""

    def write(self, line: str) -> None:
        """Write a line that stays."""
        self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        """Do nothing: the file is its owner's."""


class _TerminalBar:
    def __init__(self, total: int | None, file: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._total = total
        self._bar = Progress(
            TextColumn("{task.completed} samples"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}"),
            console=Console(file=file, force_jupyter=False),
        )
        self._bar.start()
        self._task = self._bar.add_task("training", total=total, text="")

    def update(self, samples: int, text: str) -> None:
        """Show how many samples were trained, and a text."""
        self._bar.update(self._task, completed=samples, text=text)
        if self._total is not None and samples >= self._total:
            self._bar.refresh()

    def write(self, line: str) -> None:
        """Write a line that stays."""
        self._bar.console.print(line, highlight=False, markup=False)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.stop()


class _NotebookBar:
    """An output of a cell that is replaced; it needs no package beyond the notebook's own."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._display: Any = import_module("IPython.display")
        self._output = self._display.display(self._html(0, ""), display_id=True)

    def update(self, samples: int, text: str) -> None:
        """Show how many samples were trained, and a text."""
        self._output.update(self._html(samples, text))

    def write(self, line: str) -> None:
        """Write a line that stays, below the bar."""
        print(line)

    def close(self) -> None:
        """Leave the bar as it is."""

    def _html(self, samples: int, text: str) -> Any:
        bar, of = "", ""
        if self._total is not None:
            done = min(samples, self._total)
            bar = f'<progress value="{done}" max="{self._total}"></progress> '
            of = f" of {self._total:,}"
        return self._display.HTML(f"{bar}{samples:,}{of} samples {escape(text)}")


def _is_notebook() -> bool:
    """Return True if this runs in the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
