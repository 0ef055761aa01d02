"""Pages of minibatches, as installed extensions make them, and a plain table without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from sweephand.errors import printable
from sweephand.minibatch.minibatch_data import MinibatchData

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

_GROUP = "sweephand.pages"


class HtmlPage(Protocol):
    """A page of HTML that needs no other file; a notebook shows it."""

    @property
    def html(self) -> str:
        """The document."""

    def write(self, path: str | PathLike[str]) -> Path:
        """Write the document to a file and return its path."""

    def _repr_html_(self) -> str: ...


def page_maker(name: str) -> Callable[..., HtmlPage] | None:
    """Return the function that an entry point adds, or None."""
    metadata = import_module("importlib.metadata")  # slow to import, and rarely needed
    return next((one.load() for one in metadata.entry_points(group=_GROUP, name=name)), None)


def make_page(name: str, *arguments: object, **options: object) -> HtmlPage:
    """Return a page; ImportError if no installed package makes pages of this name."""
    make = page_maker(name)
    if make is None:
        raise ImportError(
            f"no installed package shows a {name} (no entry point {name!r} of {_GROUP}); "
            "`pip install sweephand` brings one, with the metadata that a copied folder lacks"
        )
    return make(*arguments, **options)


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
