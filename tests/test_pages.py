"""Pages are found by entry points; without them a minibatch has its repr."""

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


def test_a_minibatch_without_pages_has_no_html(source: sh.MinibatchSource) -> None:
    assert source.next_minibatch(9)._repr_html_() is None


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
