"""A page that needs no other file, and the HTML that it is built of."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch, StreamInfo
from sweephand.extend import printable

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Return a value as HTML: escaped, its control characters as escapes to read."""
    return value if isinstance(value, Markup) else Markup(escape(printable(str(value))))


def prose(value: str) -> Markup:
    """Return a text as HTML that keeps its line ends."""
    return Markup(escape(printable(value, keep="\n\t")))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element with its children, of which None is left out; texts are escaped.

    ``class_`` is ``class`` and ``data_id`` is ``data-id``; None and False are left out, True is
    an attribute without a value.
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


def in_count(number: int) -> str:
    """Return a count with its thousands set off."""
    return f"{number:,}"


def in_number(value: Any) -> str:
    """Return an element of an array in few characters."""
    kind = np.asarray(value).dtype.kind
    if kind in "iub":
        return str(int(value))
    return f"{value:.4g}" if kind == "c" else f"{float(value):.4g}"


def as_floats(values: Any) -> NDArray[np.float64]:
    """Return numbers of any type as floats, complex numbers by their absolute value."""
    array = np.asarray(values)
    return np.abs(array) if array.dtype.kind == "c" else array.astype(np.float64)


def spread_of(values: Any) -> str:
    """Describe numbers by their least, mean and greatest, and count NaN and infinity."""
    floats = as_floats(values)
    finite = floats[np.isfinite(floats)]
    if not finite.size:
        return "no finite number" if floats.size else "empty"
    shown = f"from {finite.min():.4g} to {finite.max():.4g}, mean {finite.mean():.4g}"
    odd = floats.size - finite.size
    return f"{shown}; {in_count(odd)} not finite" if odd else shown


def and_more(shown: int, there: int, things: str) -> str | None:
    """Return a note on those that are not shown; None if all are."""
    return f"and {in_count(there - shown)} more {things}" if there > shown else None


def first_rows(minibatch: Minibatch, most: int) -> Minibatch:
    """Return the first rows of a minibatch, over the same memory."""
    return minibatch.rows(0, most) if minibatch.num_rows > most else minibatch


_LONGEST = 80
_LOOKED_AT = 20_000  # rows whose corpora are counted


def short(name: str, longest: int = _LONGEST) -> str:
    """Return a name, without its middle if it is long."""
    if len(name) <= longest:
        return name
    half = longest // 2
    return f"{name[:half]}…{name[half - longest + 1 :]}"


def short_ids(minibatch: Minibatch) -> list[str]:
    """Return the ids of a minibatch."""
    return [short(name) for name in minibatch.ids]


def corpora_of(minibatch: Minibatch) -> dict[str, int]:
    """Return the samples of each corpus, or file, in the first rows of a minibatch, by name."""
    return dict(sorted(first_rows(minibatch, _LOOKED_AT).num_samples_by().items()))


def ids_of_samples(minibatch: Minibatch, key: Any, most: int) -> list[str]:
    """Return the ids of the first samples of a stream."""
    ids = np.array(short_ids(minibatch), object)
    found: list[str] = np.repeat(ids, minibatch[key].lengths)[:most].tolist()
    return found


def class_name(info: StreamInfo, value: Any) -> str:
    """Return the name of a class with its number; of other values the number."""
    number = in_number(value)
    if info.classes and 0 <= value < len(info.classes):
        return f"{short(info.classes[int(value)])} ({number})"
    return number


@dataclass(frozen=True)
class Page:
    """A page of HTML that loads nothing; a notebook shows it."""

    title: str
    body: Markup

    @property
    def html(self) -> str:
        """The document, with its style and script in it."""
        head = joined(
            [
                tag("meta", charset="utf-8"),
                tag("meta", http_equiv="Content-Security-Policy", content=policy()),
                tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
                tag("meta", name="color-scheme", content="light dark"),
                tag("title", self.title),
                tag("link", rel="icon", href="data:,"),
                tag("style", _part("view.css")),
            ]
        )
        main = tag("main", self.body)
        body = tag("body", main, tag("script", _part("view.js")), class_="sweephand")
        return "<!doctype html>\n" + tag("html", tag("head", head), body, lang="en") + "\n"

    def write(self, path: str | PathLike[str]) -> Path:
        """Write the document to a file and return its path."""
        written = Path(path)
        written.write_text(self.html, encoding="utf-8")
        return written

    def _repr_html_(self) -> str:
        """Return the part that a notebook shows, with the style and without the script."""
        return tag("div", tag("style", _part("view.css")), self.body, class_="sweephand")

    def __repr__(self) -> str:
        return f"Page({self.title!r}): a notebook shows it, write(path) keeps it"


def policy() -> str:
    """Return the policy for browsers: nothing is loaded, and no other script runs."""
    style, script = (_digest(name) for name in ("view.css", "view.js"))
    return (
        f"default-src 'none'; img-src data:; style-src {style}; script-src {script}; "
        "base-uri 'none'; form-action 'self'"
    )


@cache
def _part(name: str) -> Markup:
    return Markup((files("sweephand.ext.view") / name).read_text("utf-8"))


def _digest(name: str) -> str:
    found = hashlib.sha256(_part(name).encode()).digest()
    return f"'sha256-{base64.b64encode(found).decode()}'"
