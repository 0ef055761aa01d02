"""Output of a command: text and tables on standard output, progress on standard error.

Only this file knows rich. Names and texts of others are escaped where they could command the
terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from rich.box import ASCII, SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from sweephand.errors import printable


def in_bytes(number: float) -> str:
    """Return a number of bytes with a binary unit."""
    if number < 1024:
        return f"{number:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        number /= 1024
        if number < 1024:
            return f"{number:.1f} {unit}"
    return f"{number / 1024:.1f} TiB"


def in_count(number: float) -> str:
    """Return a count with commas; a fraction keeps one digit.

    Examples
    --------
    >>> in_count(1234567), in_count(33.25), in_count(4.0)
    ('1,234,567', '33.2', '4')
    """
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"


def in_percent(share: float) -> str:
    """Return a share as per cent."""
    return f"{share * 100:.1f} %"


class Screen:
    """The output of a command; a quiet one shows nothing, as when the answer is JSON."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._out = Console(quiet=quiet, highlight=False, markup=False, emoji=False)
        self._err = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._box = ASCII if self._out.options.ascii_only else SIMPLE

    def text(self, text: str = "") -> None:
        """Write text, wrapped between words where the screen ends."""
        self._out.print(printable(text, keep="\n\t"))

    def heading(self, text: str) -> None:
        """Write a heading with an empty line before it."""
        self._out.print()
        self._out.print(printable(text), style="bold")

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines as they are, to be copied."""
        for line in lines:
            self._out.print(printable(line), soft_wrap=True)

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Write a table; all columns but the first are aligned to the right."""
        table = Table(box=self._box, show_edge=False, pad_edge=False)
        for number, name in enumerate(header):
            justify: Literal["left", "right"] = "right" if number else "left"
            table.add_column(printable(name), justify=justify, overflow="fold")
        for row in rows:
            table.add_row(*map(printable, row))
        self._out.print(table)

    def facts(self, rows: Mapping[str, str]) -> None:
        """Write names and values, one pair per line."""
        width = max(map(len, rows), default=0) + 2
        self.lines(f"{name:<{width}}{value}" for name, value in rows.items())

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Callable[..., None]]:
        """Show a progress bar while the block runs, if a person looks at a terminal.

        The function adds to the progress since the last call, with a note.
        """
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
