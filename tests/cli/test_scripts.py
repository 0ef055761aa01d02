"""Corpora that a script makes, and whether their maps keep what maps promise."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Call

SCRIPT = """
import numpy as np
import sweephand as sh

drawn = np.random.default_rng(0)

def noise(sequence, key):
    return {"x": sequence["x"] + key.integer(1000)}

def impure(sequence):
    return {"x": sequence["x"] + drawn.integers(10**9)}

def double(sequence):
    return {"x": sequence["x"] * 2}

whole = sh.ArrayDeserializer({"x": [np.arange(n % 9 + 1) for n in range(90)]})
pure = whole.map(noise, random=True).map(double)
wrong = whole.map(noise, random=True).map(impure).map(double)
def made():
    return pure

others = {"x": np.arange(40)}
mixture = sh.Mixture({"a": pure, "b": others}, {"a": 1, "b": 2})
wrong_mixture = sh.Mixture({"a": whole, "b": others}, {"a": 1, "b": 2}).map(impure)

number = 3
if __name__ == "__main__":
    raise SystemExit("it is no program here")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "corpora.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_stands_in_place_of_a_path(script: Path, call: Call) -> None:
    for name in ("pure", "made"):
        facts = call("info", f"{script}:{name}", "--json").facts
        assert facts["num_sequences"] == 90
        assert facts["format"] == "made by a script"
    assert call("plan", f"{script}:pure", "--size", 50, "--json").code == 0


def test_a_name_that_is_no_corpus_is_told(script: Path, call: Call) -> None:
    absent = call("plan", f"{script}:other", "--size", 50)
    assert absent.code != 0
    assert "has no 'other'; it has: " in absent.err
    number = call("plan", f"{script}:number", "--size", 50)
    assert number.code != 0
    assert "is int, and neither a corpus nor returns one" in number.err


def test_verify_maps_twice(script: Path, call: Call) -> None:
    facts = call("verify", f"{script}:pure", "--json").facts
    assert facts["ok"]
    assert [check["looked_at"] for check in facts["checks"][:2]] == [90, 90]


def test_verify_names_the_first_map_that_is_no_function_of_its_key(
    script: Path, call: Call
) -> None:
    answer = call("verify", f"{script}:wrong", "--json")
    assert answer.code == 1
    broken = [check for check in answer.facts["checks"] if check["broken"]]
    assert broken[0]["promise"].startswith("map 'impure' depends on the sequence")
    assert "array__" in broken[0]["broken"][0]
    assert not any("'double'" in check["promise"] for check in answer.facts["checks"])


def test_a_mixture_is_asked_as_one_corpus(script: Path, call: Call) -> None:
    facts = call("info", f"{script}:mixture", "--json").facts
    assert facts["num_sequences"] == 130
    plan = call("plan", f"{script}:mixture", "--size", 50, "--json")
    assert plan.code == 0
    assert plan.facts["num_samples"] == facts["num_samples"]
    traced = call("trace", f"{script}:mixture", "--step", 3, "--size", 50, "--json").facts
    assert sum(traced["corpus_positions"].values()) == traced["nominal_time"]
    assert call("find", f"{script}:mixture", "b/array__7", "--json").code == 0
    kept = call("verify", f"{script}:mixture", "--json")
    assert kept.code == 0, kept.out
    assert [check["promise"].split()[0] for check in kept.facts["checks"]][:2] == ["map"] * 2
    assert call("verify", f"{script}:wrong_mixture", "--json").code == 1
