"""Text in lines that a screen can hold, never broken inside a word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import TextWrapper

from rich.cells import cell_len

# Between a number and its unit: "4.1 %" is one word.
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[KMGT]iB|B|[mu]?s|[kMG])(?:\W|$))")
# Between an option and its value.
_OPTION = re.compile(r"(?<= --)([\w-]+) (?=[^- ])")
_JOINED = "\0"
_CONTINUED = " \\"


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    r"""Return the lines of a text, none longer than `width` but for words that are longer.

    Parameters
    ----------
    text : str
        Its own line ends stay.
    width : int
        Characters of a line.
    indent : int
        Spaces before every line but the first of each of its lines.

    Examples
    --------
    >>> wrapped("it pads 4.1 % of all\ncells", 12)
    ['it pads', '4.1 % of all', 'cells']
    """
    wrapper = TextWrapper(
        max(width, indent + 1),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    )
    lines: list[str] = []
    for line in text.split("\n"):
        lines += wrapper.wrap(_UNIT.sub(_JOINED, line)) or [""]
    return [line.replace(_JOINED, " ") for line in lines]


def wrapped_command(command: str, width: int, indent: int = 0) -> list[str]:
    r"""Return a command in lines that a shell joins.

    Examples
    --------
    >>> print(*wrapped_command("sweephand info folder --index none", 24), sep="\n")
    sweephand info folder \
        --index none
    """
    text = " " * indent + command
    if len(text) <= width:
        return [text]
    paired = _OPTION.sub(rf"\1{_JOINED}", text)
    lines = wrapped(paired, width - len(_CONTINUED), indent + 4)
    return [line + _CONTINUED for line in lines[:-1]] + lines[-1:]


def column_widths(
    header: Sequence[str], rows: Sequence[Sequence[str]], room: int
) -> list[int] | None:
    """Return how wide the columns of a table are; None if it is too wide for `room`.

    Headers and the first column may be wrapped between words, the others not.

    Examples
    --------
    >>> column_widths(["", "first id"], [["two words", "1"]], 20), column_widths(["abc"], [], 2)
    ([9, 8], None)
    """
    columns = [[name, *(row[i] for row in rows)] for i, name in enumerate(header)]
    natural = [max(map(cell_len, column)) for column in columns]
    least = [
        max(map(cell_len, [*_words(name), *(_words(*cells) if i == 0 else cells)]))
        for i, (name, *cells) in enumerate(columns)
    ]
    left = room - sum(least)
    if left < 0:
        return None
    widths = list(least)
    for i, wanted in enumerate(natural):
        grown = min(wanted - widths[i], left)
        widths[i] += grown
        left -= grown
    return widths


def _words(*texts: str) -> list[str]:
    return [word for text in texts for word in _UNIT.sub(_JOINED, text).split()] or [""]
