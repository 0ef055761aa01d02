"""Benchmarks run: every contender makes a step, on a thousandth of the data."""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path

import pytest
from benchmarks import report, slow_loops
from benchmarks.goals import LINES
from benchmarks.suite import bench_plan
from benchmarks.suite.contest import Process
from benchmarks.suite.store import Store
from benchmarks.suite.turn import Turn

pytest.importorskip("pyarrow")
pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")  # torchdata
@pytest.mark.parametrize("name", report.ROWS)
def test_a_benchmark_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPHAND_BENCHMARK_SCALE", "0.001")
    monkeypatch.chdir(tmp_path)
    row = report.ROWS[name]()
    row.write_data()
    for contender, make in row.contenders.items():
        if contender.startswith("C ") and shutil.which("cc") is None:
            continue  # no C compiler for the limits
        try:
            steps = make()
            taken = list(islice(steps, 2 if row.fresh else 3))
        except ModuleNotFoundError:
            continue  # a peer that is not installed
        assert isinstance(taken[-1], int | Turn)
        steps.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", range(6))
def test_a_cured_loop_gets_the_samples_of_the_slow_one(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    with Store() as store:
        _, fault = next(islice(slow_loops.faults(store, 0.01), number, None))
        slow, cured = slow_loops.run(fault.slow, 0), slow_loops.run(fault.cured, 0)
    assert 0 < slow.total_samples == cured.total_samples


def test_packed_rows_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPHAND_BENCHMARK_SCALE", "0.01")
    corpus, lanes = (one[0] for one in bench_plan.Fill.params)
    assert 90 < bench_plan.Fill().track_fill(corpus, lanes) <= 100


def test_a_contender_in_a_process_of_its_own_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPHAND_BENCHMARK_SCALE", "0.001")
    monkeypatch.chdir(tmp_path)
    with Process(bench_plan.Packing(), "sweephand") as process:
        process.prepare()
        (turn,) = process.take_turn(0.01)
    assert turn.count > 0
    assert turn.wall > 0


def test_goals_are_of_contenders_that_are_there() -> None:
    assert len(report.ROWS) > 20
    for line in LINES:
        goals = (goal.beside for goal in line.goals)
        named = filter(None, (line.ours, line.limit, line.by_hand, *line.peers, *goals))
        assert set(named) <= set(report.ROWS[line.row].contenders)
        assert line.goals
