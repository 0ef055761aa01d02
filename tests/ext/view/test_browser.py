"""The pages in a browser: Chromium by Playwright, where both are there."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ext.view.conftest import words

import sweephand as sh
from sweephand.ext.view.command import ViewServer
from sweephand.ext.view.viewer import Question, Viewer
from sweephand.source.answers import twin_of

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium: Playwright's own, or that of the system."""
    of_system = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_api.sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        if not own.exists() and of_system is None:
            pytest.skip("no Chromium is here: playwright install chromium")
        made = playwright.chromium.launch(
            executable_path=None if own.exists() else of_system, args=["--no-sandbox"]
        )
        yield made
        made.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    corpora = {
        name: sh.ArrayDeserializer({"tokens": words(), "y": np.arange(60) % 3}) for name in "ab"
    }
    events = [sh.events.Skip(at=900, stop=1000)]
    source = sh.MinibatchSource(
        sh.Mixture(corpora, weights={"a": 2, "b": 1}), layout=sh.Packed(64), events=events
    )
    viewer = Viewer(partial(twin_of, source.timeline), "data", Question(size=256), chr)
    with ViewServer(viewer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()
    viewer.close()


@pytest.fixture(params=[(1200, "light"), (400, "dark")], ids=str)
def page(request: pytest.FixtureRequest, browser: Any, url: str) -> Iterator[Any]:
    """A page of which every message, error and request is kept."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    made = context.new_page()
    made.trouble = []
    made.asked_for = []
    made.on("console", lambda message: made.trouble.append(message.text))
    made.on("pageerror", lambda error: made.trouble.append(str(error)))
    made.on("request", lambda request: made.asked_for.append(request.url))
    made.goto(url)
    yield made
    assert made.trouble == []
    assert all(asked.startswith((url, "data:")) for asked in made.asked_for)
    context.close()


def heading(page: Any) -> str:
    return str(page.locator("h1 small").inner_text())


def test_the_keys_walk_forward_and_back(page: Any) -> None:
    assert heading(page) == "step 0"
    for key, step in [("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)]:
        page.keyboard.press(key)
        expect(page.locator("h1 small")).to_have_text(f"step {step}")
    page.locator("input[name=step]:visible").focus()
    page.keyboard.press("ArrowRight")  # which moves in the field
    assert heading(page) == "step 1"


def test_a_search_leads_to_its_id(page: Any) -> None:
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "search"
    page.keyboard.type("a/array__5")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("begins at nominal time")
