"""What a command shows: text and tables on standard output, progress on standard error.

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

from sweephand.printable import printable
from sweephand.terminal.charts import ASCII_INK, BLOCK_INK, Ink


class Advance(Protocol):
    """Moves a progress bar on."""

    def __call__(self, count: int, note: str = "") -> None:
        """Say how much was done since the last call, and a word on it."""


class Screen:
    """Where a command writes.

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
        """What charts are drawn with."""
        return ASCII_INK if self._out.options.ascii_only else BLOCK_INK

    def text(self, text: str = "", style: str | None = None) -> None:
        """Write text, wrapped where the screen ends."""
        self._out.print(printable(text, keep="\n\t"), style=style)

    def heading(self, text: str) -> None:
        """Write a heading with an empty line before it."""
        self._out.print()
        self._out.print(printable(text), style="bold")

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines as they are, such as those of a chart."""
        for line in lines:
            self._out.print(printable(line), soft_wrap=True)

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Write a table; all columns but the first stand to the right."""
        table = Table(box=self._box, show_edge=False, pad_edge=False)
        for number, name in enumerate(header):
            table.add_column(
                printable(name), justify="right" if number else "left", overflow="fold"
            )
        for row in rows:
            table.add_row(*map(printable, row))
        self._out.print(table)

    def facts(self, rows: Mapping[str, str]) -> None:
        """Write names and what they stand for, one below the other."""
        width = max(map(len, rows))
        for name, value in rows.items():
            self._out.print(printable(f"{name:<{width}}  {value}"), soft_wrap=True)

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
