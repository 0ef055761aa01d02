"""The pages of a viewer: forward and back, to a time or an id, in every layout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from tests.ext.view.conftest import words
from tests.ext.view.pages import Read

import sweephand as sh
from sweephand.ext.view import source_view
from sweephand.ext.view.viewer import Question, Viewer
from sweephand.layouts.base import layout_names
from sweephand.source.answers import twin_of

SIZE = 100


@pytest.fixture
def source() -> sh.MinibatchSource:
    corpus = sh.ArrayDeserializer({"tokens": words()})
    return sh.MinibatchSource(corpus, randomization_seed=7, max_sweeps=3)


@pytest.fixture
def viewer(source: sh.MinibatchSource) -> Iterator[Viewer]:
    made = Viewer(partial(twin_of, source.timeline), "<b>data", Question(size=SIZE))
    yield made
    made.close()


def asked(viewer: Viewer, query: str = "") -> Read:
    page = viewer.page(viewer.first.asked(query.removeprefix("?")))
    return Read(page.html)


def link(page: Read, name: str) -> str | None:
    found = [
        attributes["href"] for attributes in page.named("a") if attributes.get("id") == name
    ]
    return found[0] if found else None


def time_of(page: Read) -> int:
    return int(re.search(r"nominal time +([\d,]+) +sequences", page.text)[1].replace(",", ""))  # type: ignore[index]


@pytest.mark.parametrize("layout", ["", *layout_names()])
def test_the_way_forward_is_that_of_the_run_and_back_the_same(
    viewer: Viewer, source: sh.MinibatchSource, layout: str
) -> None:
    page, times = asked(viewer, f"layout={layout}&length=8"), []
    links: list[str | None] = []
    while True:
        times.append(time_of(page))
        links.append(link(page, "next"))
        if links[-1] is None or len(times) > 200:
            break
        page = asked(viewer, links[-1])
    for time in reversed(times[:-1]):
        back = link(page, "previous")
        assert back is not None
        page = asked(viewer, back)
        assert time_of(page) == time
    assert link(page, "previous") is None
    if layout in ("", "ragged", "padded"):
        assert times == [minibatch.nominal_time for minibatch in source.minibatches(SIZE)]
    assert times == sorted(set(times))


def test_a_time_and_an_id_lead_to_the_step_that_delivers_them(
    viewer: Viewer, source: sh.MinibatchSource
) -> None:
    minibatches = list(source.minibatches(SIZE))
    for number in (0, 3, len(minibatches) - 1):
        minibatch = minibatches[number]
        last = minibatch.nominal_time + minibatch.global_num_samples - 1
        for time in (minibatch.nominal_time, last):
            assert f"step {number}" in asked(viewer, f"time={time}").text
    wanted = minibatches[4].ids[1]
    page = asked(viewer, f"search={wanted}")
    assert "step 4" in page.text
    assert f"{wanted}  begins at nominal time" in page.text


def test_wrong_places_are_said_and_the_controls_stay(viewer: Viewer) -> None:
    for query, words_of_it in {
        "time=999999": "the data end before nominal time 999,999",
        "step=4000": "there is no step 4000: the data end after",
        "layout=oval": "there is no layout 'oval'; there are: bucketed",
        "workers=49": "num_data_partitions must be in [1, 48]",
        "layout=bucketed&length=100": "num_buckets must be in [1, 65)",
    }.items():
        page = asked(viewer, query)
        assert words_of_it in page.text
        assert page.of_class("error")
        assert page.named("nav")


def test_far_away_steps_are_counted_from_there(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_view.clock, "monotonic", iter(range(10**6)).__next__)
    page = asked(viewer, "size=1&time=3400")
    assert "So far away steps are counted from there" in page.text
    assert "from nominal time 3,4" in page.text
    assert "go to a nominal time" in asked(viewer, "size=2&step=170").text


def test_damaged_data_are_said_and_can_be_left() -> None:
    def broken(sequence: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if sequence["x"][0] == 5:
            raise ValueError("<5>")
        return sequence

    corpus = sh.ArrayDeserializer({"x": np.arange(20)}).map(broken)
    source = sh.MinibatchSource(corpus, randomize=False)
    viewer = Viewer(partial(twin_of, source.timeline), "x", Question(size=4, step=1))
    page = asked(viewer)
    assert "<5>" in page.text
    following = link(page, "next")
    assert following is not None
    assert not asked(viewer, following).of_class("error")
    with pytest.raises(sh.DataError):
        viewer.page_alone(viewer.first)
    viewer.close()
