"""HTML that is built of parts: all text in it is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from sweephand.extend import printable

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Return a value as HTML: escaped, its control characters as escapes to read.

    Examples
    --------
    >>> text("<script>"), text(3)
    ('&lt;script&gt;', '3')
    """
    return value if isinstance(value, Markup) else Markup(escape(printable(str(value))))


def prose(value: str) -> Markup:
    """Return a text as HTML that keeps its line ends."""
    return Markup(escape(printable(value, keep="\n\t")))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element with its children, of which None is left out; texts are escaped.

    ``class_`` is ``class`` and ``data_id`` is ``data-id``; None and False are left out, True is
    an attribute without a value.

    Examples
    --------
    >>> tag("b", "a < b", class_="x", title=None)
    '<b class="x">a &lt; b</b>'
    """
    shown = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{shown}>")
    return Markup(f"<{name}{shown}>{joined(children)}</{name}>")


def joined(parts: Iterable[object], between: str = "") -> Markup:
    """Return the concatenated parts; None is left out."""
    return Markup(text(between).join(text(part) for part in parts if part is not None))


def figure(*children: object, caption: str) -> Markup:
    """Return a figure with its caption, if that has words."""
    return tag("figure", *children, tag("figcaption", caption) if caption else None)


def wide_table(heads: Iterable[object], rows: Iterable[Markup]) -> Markup:
    """Return a table that scrolls where the page is too narrow, with a head for each column."""
    head = tag("tr", *(tag("th", name, scope="col") for name in heads))
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return tag("div", table, class_="wide", tabindex=0)


def note(*words: object) -> Markup:
    """Return a paragraph that is beside the matter."""
    return tag("p", *words, class_="note")


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(value)}"'
