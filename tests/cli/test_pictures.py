"""Pictures have a title and legible axes, and are refused where there is none."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.cli.conftest import Call

from sweephand.terminal import pictures

CALLS: list[list[object]] = [
    ["info"],
    ["plan", "--size", 500, "--workers", 2],
    ["bench", "--rounds", 2, "--seconds", 0.01],
]


@pytest.mark.parametrize("words", CALLS, ids=lambda words: words[0])
def test_a_picture_is_kept_as_png_and_as_a_page_that_stands_alone(
    words: list[object], tokens: Path, call: Call, tmp_path: Path
) -> None:
    name, *options = words
    png, html = tmp_path / "drawn.png", tmp_path / "drawn.html"
    facts = call(name, tokens, *options, "--png", png, "--html", html, "--json").facts
    assert (facts["png"], facts["html"]) == (str(png), str(html))
    assert png.read_bytes().startswith(b"\x89PNG\r\n")
    page = html.read_text()
    assert re.search(r"<title>.*\w.*</title>", page)
    ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="http', page)
    shown = call(name, tokens, *options, "--html", html).out
    assert "figure:" in shown


def test_a_place_that_cannot_be_written_is_said_before_the_work(
    tokens: Path, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr("sweephand.cli.bench.run")
    answer = call("bench", tokens, "--png", tmp_path / "absent" / "x.png")
    assert answer.code == 1
    assert "there is no folder" in answer.err
    assert "it is a folder" in call("bench", tokens, "--html", tmp_path).err


@pytest.mark.parametrize("lengths", [[7] * 5, [5, 9], [1, 3_000_000], [10, 900]])
def test_ticks_are_few_and_do_not_overlap(lengths: list[int]) -> None:
    figure, (panel,) = pictures.new_figure("Lengths", 1)
    pictures.draw_lengths(panel, np.array(lengths))
    figure.canvas.draw()
    assert figure.get_suptitle() == "Lengths"
    for axis in (panel.xaxis, panel.yaxis):
        boxes = [
            label.get_window_extent()
            for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
            if label.get_text()
            and axis.get_view_interval()[0] <= place
            and place <= axis.get_view_interval()[1]
        ]
        assert 1 <= len(boxes) <= 7
        assert not any(one.overlaps(two) for i, one in enumerate(boxes) for two in boxes[:i])
