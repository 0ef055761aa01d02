"""``sweephand events`` shows a file of events, and adds to it."""

from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Call


def test_events_are_added_and_shown(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "run" / "events.json"
    ids = tmp_path / "ids.txt"
    ids.write_text("array__5\narray__6\n")
    for words in (
        ["skip", "60", "80"],
        ["ban", "array__4", "--ids", ids, "--at", "20"],
        ["weights", "web=3", "code=1.5", "--at", "90"],
        ["map-version", "crop", "2", "--at", "99"],
    ):
        assert call("events", path, *words).code == 0
    facts = call("events", path, "--json").facts
    assert [one["event"] for one in facts["events"]] == [
        "skip", "ban", "weights", "map_version",
    ]  # fmt: skip
    assert facts["events"][1]["ids"] == ["array__4", "array__5", "array__6"]
    shown = call("events", path).out
    assert shown.index("ban") < shown.index("skip")
    assert "web=3 code=3/2" in shown


def test_a_file_that_was_edited_is_renewed(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "events.json"
    call("events", path, "skip", "60", "80")
    path.write_text(path.read_text().replace("80", "90"))
    refused = call("events", path)
    assert refused.code != 0
    assert "renew" in refused.err
    assert call("events", path, "skip", "10", "20").code != 0
    assert call("events", path, "renew", "more").code != 0
    assert call("events", path, "renew", "--json").facts["events"][0]["stop"] == 90
    assert call("events", path, "--json").facts["events"][0]["stop"] == 90


def test_commands_that_plan_take_events(tmp_path: Path, call: Call) -> None:
    np.save(tmp_path / "x.npy", np.arange(100))
    path = tmp_path / "events.json"
    call("events", path, "skip", "20", "70")
    plain = call("plan", tmp_path / "x.npy", "--size", "10", "--json").facts
    told = call("plan", tmp_path / "x.npy", "--size", "10", "--events", path, "--json").facts
    assert (plain["steps"], told["steps"]) == (10, 5)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["skip", "3"], "where it begins and where it stops"),
        (["skip", "5", "3"], "stop must be"),
        (["ban", "x"], "--at T"),
        (["ban", "--at", "3"], "name an id"),
        (["weights", "web", "--at", "3"], "NAME=WEIGHT"),
        (["map-version", "crop", "--at", "3"], "a map and a version"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str], why: str, tmp_path: Path, call: Call
) -> None:
    path = tmp_path / "events.json"
    answer = call("events", path, *words)
    assert answer.code == 2
    assert why in answer.err.splitlines()[-1]
    assert not path.exists()


def test_a_file_that_is_none_is_named(tmp_path: Path, call: Call) -> None:
    assert "nothing.json" in call("events", tmp_path / "nothing.json").err
    (tmp_path / "other.json").write_text("[]")
    assert "no list of events" in call("events", tmp_path / "other.json").err
