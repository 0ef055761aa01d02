"""A page that needs no other file."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path

from sweephand.ext.view.markup import Markup, joined, tag


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
