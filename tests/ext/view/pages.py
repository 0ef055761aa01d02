"""Pages read back: their elements, text and addresses, by Python's own parser."""

from __future__ import annotations

from html.parser import HTMLParser

from sweephand.ext.view.page import Page

_VOID = {"br", "hr", "img", "input", "link", "meta"}
_ADDRESSES = {"src", "href", "action", "srcset", "data", "poster", "xlink:href", "formaction"}


class Read(HTMLParser):
    """A page that was parsed; it fails if an element is not closed, or something is loaded."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []  # names and attributes
        self._parts: list[str] = []
        self._spans: list[tuple[int, int]] = []  # of the parts that stand in each element
        self.scripts: list[str] = []
        self._open: list[tuple[str, int]] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag not in _VOID:
            self._open.append((tag, len(self.elements)))
        self.elements.append((tag, found))
        self._spans.append((len(self._parts), len(self._parts)))
        assert tag not in {
            "iframe",
            "object",
            "embed",
            "base",
            "video",
            "audio",
            "foreignobject",
        }
        for name, value in found.items():
            assert not name.startswith("on"), f"{tag} runs {name}"
            assert name != "style", "the page's own policy forbids it"
            if name in _ADDRESSES:
                assert value.startswith(("data:", "?")), f"{tag} loads {value}"

    def handle_endtag(self, tag: str) -> None:
        name, number = self._open.pop()
        assert name == tag
        self._spans[number] = self._spans[number][0], len(self._parts)

    def handle_data(self, data: str) -> None:
        name = self._open[-1][0] if self._open else ""
        if name == "script":
            self.scripts.append(data)
        elif name != "style":
            self._parts.append(data)

    @property
    def text(self) -> str:
        """All text but that of style and script, with spaces between its parts."""
        return " ".join(self._parts)

    def texts(self, class_: str) -> list[list[str]]:
        """Return the parts of the text of every element of a class."""
        return [
            self._parts[begin:end]
            for (_, found), (begin, end) in zip(self.elements, self._spans, strict=True)
            if class_ in found.get("class", "").split()
        ]

    def named(self, name: str, class_: str | None = None) -> list[dict[str, str]]:
        """Return the attributes of all elements of a name, and of a class if one is given."""
        return [
            found
            for tag, found in self.elements
            if tag == name and (class_ is None or class_ in found.get("class", "").split())
        ]

    def of_class(self, class_: str) -> list[dict[str, str]]:
        """Return the attributes of all elements of a class."""
        return [found for _, found in self.elements if class_ in found.get("class", "").split()]


def read(page: Page) -> Read:
    """Return a page parsed, after looking for what no page may have."""
    found = Read(page.html)
    assert len(found.scripts) == 1, "its own script alone"
    assert not found.of_class("error"), found.text
    Read(page._repr_html_())  # what a notebook shows is well-formed, too
    return found
