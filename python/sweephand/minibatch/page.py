"""Pages of minibatches, as installed extensions make them, and a plain table without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from sweephand.base.added import load_added
from sweephand.errors import printable
from sweephand.minibatch.minibatch_data import MinibatchData

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

PAGES = "sweephand.pages"
"""The group of entry points, each named by what it shows."""


class HtmlPage(Protocol):
    """A page of HTML that needs no other file; a notebook shows it."""

    @property
    def html(self) -> str:
        """The document."""

    def write(self, path: str | PathLike[str]) -> Path:
        """Write the document to a file and return its path."""

    def _repr_html_(self) -> str: ...


def make_page(name: str, *arguments: object, **options: object) -> HtmlPage:
    """Return a page; ImportError if no installed package makes pages of this name."""
    make = load_added(PAGES, name)
    if make is None:
        raise ImportError(
            f"no installed package shows a {name} (no entry point {name!r} of {PAGES}); "
            "`pip install sweephand` brings one, with the metadata that a copied folder lacks"
        )
    page: HtmlPage = make(*arguments, **options)
    return page


def table_of(minibatch: Mapping[Any, MinibatchData]) -> str:
    """Return a table of the streams of a minibatch, below its facts."""
    rows = [
        _row("td", (key, data.brief, f"{data.num_samples:,}"))
        for key, data in minibatch.items()
    ]
    facts = repr(minibatch).partition(";")[0].rstrip(")") + ")"
    head = _row("th", ("stream", "type", "samples"))
    return f"<p>{escape(facts)}</p><table>{head}{''.join(rows)}</table>"


def _row(tag: str, words: Iterable[object]) -> str:
    shown = (escape(printable(str(word))) for word in words)
    return "<tr>" + "".join(f"<{tag}>{word}</{tag}>" for word in shown) + "</tr>"
