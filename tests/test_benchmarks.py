"""Benchmarks run: what asv would call, without asv and on a thousandth of the data."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from benchmarks import report

pytest.importorskip("pyarrow")
pytest.importorskip("torch")

SUITE = Path(__file__).parents[1] / "benchmarks" / "suite"


def calls_of(one: type) -> list[str]:
    return [name for name in dir(one) if name.startswith(("time_", "track_"))]


CLASSES = {
    f"{path.stem}.{name}": one
    for path in sorted(SUITE.glob("bench_*.py"))
    for name, one in vars(import_module(f"benchmarks.suite.{path.stem}")).items()
    if isinstance(one, type) and calls_of(one)
}


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # NumPy's norm of float16
@pytest.mark.parametrize("name", CLASSES)
def test_a_benchmark_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPHAND_BENCHMARK_SCALE", "0.0001" if "emory" in name else "0.001")
    monkeypatch.setenv("SWEEPHAND_BENCHMARK_LARGE", "1")
    monkeypatch.chdir(tmp_path)
    if name.startswith("bench_memory"):  # one call of a process of its own is enough
        of_memory = import_module("benchmarks.suite.bench_memory")
        monkeypatch.setattr(of_memory, "in_own_process", lambda call, *of, **_: call(*of))
    if shutil.which("cc") is None and name.endswith((".Delivery", ".PackedRows")):
        pytest.skip("no C compiler for the limits")
    bench: Any = CLASSES[name]()
    made = bench.setup_cache() if hasattr(bench, "setup_cache") else None
    cached = () if made is None else (made,)
    for chosen in product(*getattr(bench, "params", ())):
        parameters = (*cached, *chosen)
        for call in calls_of(CLASSES[name]):
            if hasattr(bench, "setup"):
                bench.setup(*parameters)
            found = getattr(bench, call)(*parameters)
            assert call.startswith("time_") or isinstance(found, int | float)
            if hasattr(bench, "teardown"):
                bench.teardown(*parameters)
        if name.endswith("FreshMemory"):
            break  # a process each


def test_benchmarks_are_found() -> None:
    assert len(CLASSES) > 20


def test_the_report_tells_of_benchmarks_that_are_there() -> None:
    of_asv = [table for name, table in vars(report).items() if name.isupper() and table]
    measures = [one for table in of_asv if isinstance(table, dict) for one in table.values()]
    assert len(measures) > 20
    for one in measures:
        owner, _, call = one.benchmark.rpartition(".")
        assert call in calls_of(CLASSES[owner])


def test_the_report_writes_what_was_measured_and_leaves_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loops = [["'by hand'", "'sweephand'"]]
    step = "bench_train.Step"
    found = {
        "params": {"cpu": "x", "num_cpu": "2"},
        "result_columns": ["result", "params", "stats_q_25", "stats_q_75"],
        "results": {
            f"{kind}.{call}": [result, loops, *quartiles]
            for kind in (step, "bench_train.Session")
            for call, result, *quartiles in (
                ("time_steps", [0.1, 0.125], [0.1, 0.1], [0.1, 0.2]),
                ("track_samples", [500, 500]),
            )
        },
    }
    (tmp_path / "asv.json").write_text(json.dumps(found))
    marks = (f"<!-- {name} -->\nold\n<!-- end {name} -->" for name in report.tables(None, {}))
    page = tmp_path / "page.md"
    page.write_text("\n".join(marks))
    given = [f"--results={tmp_path / 'asv.json'}", "--peers=none", f"--page={page}", "--write"]
    monkeypatch.setattr("sys.argv", ["report", *given])
    report.main()
    assert "| a step of `Trainer` | sweephand | 250 (200 - 400) µs | 0.80 |" in page.read_text()
    assert "<!-- source -->\nold\n<!-- end source -->" in page.read_text()
    assert "source is left as it is" in capsys.readouterr().out
    text = report.PAGE.read_text()
    assert all(f"\n<!-- {name} -->\n" in text for name in report.tables(None, {}))
