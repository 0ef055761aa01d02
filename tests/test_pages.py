"""Pages are found by entry points; without them a minibatch is a table."""

from __future__ import annotations

import importlib.metadata

import numpy as np
import pytest

import sweephand as sh


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> sh.MinibatchSource:
    """A source where nothing that is installed makes pages."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    streams = {"<x>": [np.arange(3), np.arange(2)], "y": np.arange(2)}
    return sh.MinibatchSource(sh.ArrayDeserializer(streams), max_sweeps=1)


def test_a_minibatch_without_pages_is_a_plain_table(source: sh.MinibatchSource) -> None:
    shown = source.next_minibatch(9)._repr_html_()
    assert shown.startswith(
        "<p>Minibatch(2 sequences, 5 samples, at nominal time 0)</p><table>"
    )
    assert "<tr><td>&lt;x&gt;</td><td>int64 (2, 3)</td><td>5</td></tr>" in shown
    assert "end of data" in source.next_minibatch(9)._repr_html_()


def test_to_show_without_pages_names_what_to_install(source: sh.MinibatchSource) -> None:
    with pytest.raises(ImportError, match="pip install sweephand"):
        source.show(9)
    with pytest.raises(ImportError, match=r"'minibatch' of sweephand\.pages"):
        source.next_minibatch(9).show()


def test_the_page_of_another_package_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("minibatch", "builtins:print", "sweephand.pages")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: (point,))
    corpus = sh.ArrayDeserializer({"y": np.arange(2)})
    assert sh.MinibatchSource(corpus).next_minibatch(1).show() is None
