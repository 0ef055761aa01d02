"""HTML of parts, in which all text is escaped."""

import html

from hypothesis import given
from hypothesis import strategies as st
from tests.ext.view.pages import Read

from sweephand.ext.view.page import prose, tag, text

ANY_TEXT = st.text(st.characters(codec=None, categories=None))


@given(ANY_TEXT, ANY_TEXT)
def test_no_text_becomes_markup_and_all_can_be_encoded(child: str, value: str) -> None:
    found = tag("p", child, prose(child), title=value)
    found.encode()
    parsed = Read(found)
    assert [name for name, _ in parsed.elements] == ["p"]
    assert html.unescape(str(text(child))) in parsed.text


def test_line_ends_stay_in_prose_alone() -> None:
    assert prose("a\n\x1b<") == "a\n\\x1b&lt;"
    assert text("a\nb") == "a\\nb"
