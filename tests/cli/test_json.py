"""Under --json standard output is one JSON value, whatever happens."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tests.cli.conftest import Call

from sweephand.base.checks import OptionalModule
from sweephand.deserializers import parquet
from sweephand.deserializers.units import arrow_units


def strict(text: str) -> object:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_an_error_of_the_data_has_its_place(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": [1, 2]}\n{"a": [1, 2\n{"a": [1, 2]}\n')
    answer = call("info", path, "--json")
    assert (answer.code, answer.err) == (1, "")
    facts = answer.facts
    assert facts["code"] == "damaged-data"
    assert facts["where"]["command"] == "info"
    assert facts["where"]["file"].endswith("x.jsonl")
    assert facts["where"]["line"] == 2
    assert facts["error"] == call("info", path).err.removeprefix("sweephand info: ").strip()


def test_a_package_that_is_missing_is_the_hint(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and more PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    # Other tests of this process may have imported them.
    monkeypatch.setattr(parquet, "pq", OptionalModule("pyarrow.parquet", extra="parquet"))
    monkeypatch.setattr(arrow_units, "pa", OptionalModule("pyarrow", extra="parquet"))
    answer = call("info", tmp_path / "a.parquet", "--json")
    assert answer.code == 1
    assert answer.facts["hint"] == "pip install 'sweephand[parquet]'"
    assert answer.facts["code"] == "missing-package"


def test_an_interruption_keeps_its_exit_code(
    tokens: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sweephand.cli.info.run", interrupted)
    assert call("info", tokens).code == 130
    answer = call("info", tokens, "--json")
    assert (answer.code, answer.facts["error"]) == (130, "interrupted")
    assert answer.facts["code"] == "interrupted"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_figures_that_json_lacks_are_null(
    value: float, tokens: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sweephand.cli.info.run", lambda *_: {"ok": True, "a": [value, {"b": (value, 1.5)}]}
    )
    answer = call("info", tokens, "--json")
    assert strict(answer.out) == {"ok": True, "a": [None, {"b": [None, 1.5]}]}
