"""Output of a command: text and tables on standard output, progress on standard error.

Names and texts of others are escaped where they could command the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.box import ASCII, SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from sweephand.errors import printable
from sweephand.terminal.charts import ASCII_INK, BLOCK_INK, Ink
from sweephand.terminal.wrapping import column_widths, wrapped, wrapped_command

_BETWEEN_COLUMNS = 3


class Advance(Protocol):
    """Moves a progress bar on."""

    def __call__(self, count: int, note: str = "") -> None:
        """Add to the progress since the last call, with a note."""


class Screen:
    """The output of a command.

    Parameters
    ----------
    quiet : bool
        Show nothing, as when the answer is JSON.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._out = Console(quiet=quiet, highlight=False, markup=False, emoji=False)
        self._err = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._box = ASCII if self._out.options.ascii_only else SIMPLE

    @property
    def ink(self) -> Ink:
        """Characters of which charts are drawn."""
        return ASCII_INK if self._out.options.ascii_only else BLOCK_INK

    @property
    def width(self) -> int:
        """Characters in a line."""
        return self._out.width

    def text(self, text: str = "", style: str | None = None) -> None:
        """Write text, wrapped between words where the screen ends."""
        self.lines(wrapped(printable(text, keep="\n\t"), self.width), style)

    def heading(self, text: str) -> None:
        """Write a heading with an empty line before it."""
        self._out.print()
        self.lines(wrapped(printable(text), self.width), "bold")

    def lines(self, lines: Iterable[str], style: str | None = None) -> None:
        """Write lines as they are, such as those of a chart."""
        for line in lines:
            self._out.print(printable(line), soft_wrap=True, style=style)

    def command(self, command: str) -> None:
        """Write a command to be copied, over several lines if one cannot hold it."""
        self.lines(wrapped_command(printable(command), self.width))

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Write a table; all columns but the first are aligned to the right.

        Where it is too wide for the screen, every row is written as a list of its own.
        """
        header = [printable(name) for name in header]
        shown = [[printable(cell) for cell in row] for row in rows]
        between = _BETWEEN_COLUMNS * (len(header) - 1)
        widths = column_widths(header, shown, self.width - between)
        if widths is None:
            self._lists(header, shown)
            return
        table = Table(box=self._box, show_edge=False, pad_edge=False)
        for number, (name, width) in enumerate(zip(header, widths, strict=True)):
            table.add_column(name, justify="right" if number else "left", width=width)
        for row in shown:
            table.add_row(*row)
        self._out.print(table)

    def _lists(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        for name, *cells in rows:
            self.text(name)
            row = {f"  {head}": cell for head, cell in zip(header[1:], cells, strict=True)}
            self.facts({head: cell for head, cell in row.items() if cell})

    def facts(self, rows: Mapping[str, str]) -> None:
        """Write names and values, one pair per line."""
        width = max(map(len, rows), default=0) + 2
        for name, value in rows.items():
            self.lines(wrapped(printable(f"{name:<{width}}{value}"), self.width, width))

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Advance]:
        """Show a progress bar while the block runs, if a person looks at a terminal."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        seen = self._err.is_terminal and not self._err.is_dumb_terminal
        with Progress(*columns, console=self._err, transient=True, disable=not seen) as bar:
            task = bar.add_task(printable(title), total=total, note="")

            def advance(count: int, note: str = "") -> None:
                bar.update(task, advance=count, note=printable(note))

            yield advance
