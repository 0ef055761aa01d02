"""``sweephand ledger`` tells which sequences cost most, and what one did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Call

import sweephand as sh


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Two sweeps over two files; losses are numbers of sequences, and 1 more each sweep."""
    for name, count in (("a", 4), ("b", 2)):
        text = "".join(f'{{"x": {list(range(i + 1))}}}\n' for i in range(count))
        (tmp_path / f"{name}.jsonl").write_text(text)
    source = sh.MinibatchSource(sh.open(tmp_path / "*.jsonl"), randomize=False)
    corpus = [
        "a.jsonl__0",
        "a.jsonl__1",
        "a.jsonl__2",
        "a.jsonl__3",
        "b.jsonl__0",
        "b.jsonl__1",
    ]
    path = tmp_path / "losses"
    with sh.LossLedger(path) as made:
        for sweep in range(2):
            for _ in range(2):
                minibatch = source.next_minibatch(7)
                losses = [10 * corpus.index(one) + sweep for one in minibatch.ids]
                made.record(minibatch, np.float32(losses))
    return path


def test_the_highest_losses_come_first(ledger: Path, call: Call) -> None:
    facts = call("ledger", "top", ledger, "--rows", 2, "--json").facts
    assert facts["num_visits"] == 12
    assert [one["id"] for one in facts["sequences"]] == ["b.jsonl__1", "b.jsonl__0"]
    assert facts["sequences"][0] == {
        "id": "b.jsonl__1",
        "corpus": "b.jsonl",
        "visits": 2,
        "mean": 50.5,
        "per_sample": 25.25,
        "last": 51.0,
        "sum": 101.0,
    }


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (["--by", "per-sample"], "b.jsonl__0"),
        (["--by", "last"], "b.jsonl__1"),
        (["--by", "sum"], "b.jsonl__1"),
    ],
)
def test_what_decides_can_be_chosen(
    options: list[Any], first: str, ledger: Path, call: Call
) -> None:
    facts = call("ledger", "top", ledger, *options, "--json").facts
    assert facts["sequences"][0]["id"] == first


def test_files_are_compared(ledger: Path, call: Call) -> None:
    facts = call("ledger", "by-corpus", ledger, "--json").facts
    told = [(one["corpus"], one["visits"], one["mean"]) for one in facts["corpora"]]
    assert told == [("b.jsonl", 4, 45.5), ("a.jsonl", 8, 15.5)]


def test_one_sequence_is_followed(ledger: Path, call: Call) -> None:
    facts = call("ledger", "show", ledger, "a.jsonl__2", "--json").facts
    assert [(one["step"], one["loss"]) for one in facts["visits"]] == [(1, 20.0), (3, 21.0)]
    shown = call("ledger", "show", ledger, "a.jsonl__2")
    assert "from 20 to 21" in shown.out


def test_what_is_wrong_is_one_line(ledger: Path, call: Call, tmp_path: Path) -> None:
    answer = call("ledger", "show", ledger, "a.jsonl_2")
    assert answer.code == 1
    assert "ids look like 'a.jsonl__0'" in answer.err
    assert "no ledger of losses" in call("ledger", "top", tmp_path).err
    assert call("ledger", "show", ledger).code == 2
    assert call("ledger", "top", ledger, "a.jsonl__2").code == 2
    assert call("ledger", "bottom", ledger).code == 2
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "0.losses").touch()
    assert "has no visits\n" in call("ledger", "top", tmp_path / "empty").err
