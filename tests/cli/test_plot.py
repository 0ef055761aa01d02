"""``sweephand plot`` draws what a run has logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Call
from tests.train.small import line_trainer, source_of_lengths

import sweephand as sh
from sweephand.cli.run_log import Curve, in_columns


def record(kind: str, step: int, **figures: Any) -> str:
    return json.dumps({"kind": kind, "step": step, "samples": 8 * step} | figures) + "\n"


def averages(step: int, loss: float) -> str:
    return record("training", step, loss=loss, num_samples=32, num_steps=5, num_skipped=1)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A run whose steps 6 to 10 were told twice, as after a kill."""
    (tmp_path / "run").mkdir()
    path = tmp_path / "run" / "log.jsonl"
    path.write_text(
        record("change", 1, learning_rate=0.1, loss_scale=1024.0)
        + averages(5, 4.0)
        + averages(10, 9.0)
        + record("event", 5, message="going on from 5")
        + averages(10, 3.0)
        + record("change", 11, loss_scale=512.0)
        + record("validation", 10, loss=3.5, num_samples=10)
        + averages(15, float("nan"))
    )
    return path


def test_the_curves_are_those_of_the_log(log: Path, call: Call) -> None:
    facts = call("plot", log, "--json").facts
    assert (facts["steps"], facts["samples"]) == (15, 120)
    curves = facts["curves"]
    assert curves["loss"]["training"] == {"steps": [5, 10, 15], "values": [4.0, 3.0, None]}
    assert curves["loss"]["validation"] == {"steps": [10], "values": [3.5]}
    assert curves["loss scale"]["loss_scale"] == {"steps": [1, 11], "values": [1024.0, 512.0]}
    assert curves["minibatch size"]["mean"]["values"] == [8.0, 8.0, 8.0]
    assert facts["events"] == ["going on from 5"]


def test_a_folder_with_one_log_is_a_run(log: Path, call: Call) -> None:
    shown = call("plot", log.parent)
    assert shown.code == 0
    for title in ("Loss, from 4 to nan", "Learning rate, from 0.1 to 0.1", "Minibatch size"):
        assert title in shown.out
    assert "Loss scale, from 1,024 to 512" in shown.out
    assert "going on from 5" in shown.out
    (log.parent / "b.jsonl").write_text("")
    assert "name one of: b.jsonl, log.jsonl" in call("plot", log.parent).err


def test_a_log_that_is_being_written_is_drawn_so_far(log: Path, call: Call) -> None:
    with log.open("a") as file:
        file.write('{"kind": "training", "st')
    assert call("plot", log, "--json").facts["steps"] == 15


def test_a_line_that_is_no_record_is_named(log: Path, call: Call) -> None:
    log.write_text(averages(5, 1.0) + "what?\n" + averages(10, 1.0))
    answer = call("plot", log, "--json")
    assert answer.code == 1
    assert answer.facts["where"]["line"] == 2
    log.write_text('{"a": [1, 2]}\n{"a": 1}\n')
    assert "no record of progress: it has no kind" in call("plot", log).err
    log.write_text("")
    assert "has no record of progress" in call("plot", log).err
    assert "there is no log in" in call("plot", log.parent.parent).err


def test_a_session_is_drawn(tmp_path: Path, call: Call) -> None:
    log = tmp_path / "log.jsonl"
    sh.training_session(
        line_trainer([sh.JSONLProgressWriter(log, freq=3)]),
        source_of_lengths([1] * 200, max_sweeps=1),
        10,
        cv_config=sh.CrossValidationConfig(
            source_of_lengths([1] * 6, max_sweeps=1), frequency=50
        ),
    ).train()
    png, html = tmp_path / "run.png", tmp_path / "run.html"
    facts = call("plot", log, "--png", png, "--html", html, "--json").facts
    assert set(facts["curves"]) == {"loss", "learning rate", "minibatch size"}
    assert set(facts["curves"]["loss"]) == {"training", "validation"}
    assert "limits" in facts["events"][-1]
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in html.read_text()


def test_summaries_are_drawn_where_there_is_nothing_finer(tmp_path: Path, call: Call) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(record("summary", 4, loss=1.0, num_samples=32, num_steps=4, num_skipped=0))
    curves = call("plot", log, "--json").facts["curves"]
    assert curves["loss"]["summary"]["values"] == [1.0]
    assert curves["minibatch size"]["mean"]["values"] == [8.0]


def test_columns_average_what_is_measured_and_hold_what_changes() -> None:
    curve = Curve(np.array([1, 2, 9]), np.array([1.0, 3.0, 5.0]))
    measured = in_columns(curve, 10, 5, is_held=False)
    np.testing.assert_array_equal(measured, [2, np.nan, np.nan, np.nan, 5])
    kept = in_columns(curve, 10, 5, is_held=True)
    np.testing.assert_array_equal(kept, [3, 3, 3, 3, 5])
