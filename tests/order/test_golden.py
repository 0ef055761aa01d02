"""Orders that no later version may change, read from files that no test writes."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests import model
from tests.core import core_timeline
from tests.golden.make import digest
from tests.model import ModelCorpus, ModelSettings

from sweephand import _core

FOLDER = Path(__file__).parents[1] / "golden"


def cases(name: str) -> list[Any]:
    found = json.loads((FOLDER / f"order_1_{name}.json").read_text())
    return [pytest.param(case, id=str(next(iter(case.values())))) for case in found]


needs_core = pytest.mark.skipif(
    not hasattr(_core, "Timeline"), reason="the core has no timeline yet"
)

PERMUTATIONS = [
    pytest.param(model.Permutation, id="model"),
    pytest.param(getattr(_core, "Permutation", None), id="core", marks=needs_core),
]
MIXING = {
    "mix64": (model.mix64, _core.mix64),
    "derive_key": (lambda words: model.derive_key(*words), _core.derive_key),
    "scale": (model.scale, _core.scale),
}


def word(value: Any) -> Any:
    """Words are written as hexadecimal strings, numbers as themselves."""
    if isinstance(value, list):
        return [word(one) for one in value]
    return int(value, 16) if isinstance(value, str) else value


@pytest.mark.parametrize("case", cases("mixing"))
def test_mixing_is_the_golden_one(case: dict[str, Any]) -> None:
    for function in MIXING[case["function"]]:
        for *arguments, expected in case["cases"]:
            assert function(*map(word, arguments)) == word(expected)


@pytest.mark.parametrize("make", PERMUTATIONS)
@pytest.mark.parametrize("case", cases("permutations"))
def test_a_permutation_is_the_golden_one(make: Any, case: dict[str, Any]) -> None:
    size = case["size"]
    permutation = make(size, word(case["key"]))
    assert permutation.take(0, len(case["first"])).tolist() == case["first"]
    assert (
        permutation.take(size - len(case["last"]), len(case["last"])).tolist() == case["last"]
    )
    assert [permutation.place(i) for i in range(len(case["places"]))] == case["places"]
    assert digest(permutation.take(0, case["digested"])) == case["sha256"]


@pytest.mark.parametrize("case", cases("sweeps"))
def test_a_sweep_is_the_golden_one(case: dict[str, Any]) -> None:
    corpus, settings = ModelCorpus.of(case["chunks"]), ModelSettings(**case["settings"])
    for sweep, order in case["orders"].items():
        entries = model.sweep_entries(corpus, settings, int(sweep))
        assert [entry.sequence for entry in entries] == order
        assert [entry.lane for entry in entries] == case["lanes"][sweep]


@needs_core
@pytest.mark.parametrize("case", cases("sweeps"))
def test_a_sweep_of_the_core_is_the_golden_one(case: dict[str, Any]) -> None:
    corpus, settings = ModelCorpus.of(case["chunks"]), ModelSettings(**case["settings"])
    timeline = core_timeline(corpus, settings)
    for sweep, order in case["orders"].items():
        start = int(sweep) * corpus.num_samples
        found = timeline.sequences(start, start + corpus.num_samples)
        assert found.tolist() == order


@pytest.mark.parametrize("case", cases("minibatches"))
def test_minibatches_and_shares_are_the_golden_ones(case: dict[str, Any]) -> None:
    corpus, settings = ModelCorpus.of(case["chunks"]), ModelSettings(**case["settings"])
    steps = list(
        model.minibatches(corpus, settings, case["requests"], case["time"], case["limit"])
    )
    assert [[entry.sequence for entry in taken] for taken in steps] == case["sequences"]
    assert [[entry.time for entry in taken] for taken in steps] == case["times"]
    assert [model.sweeps_ended(corpus, taken) for taken in steps] == case["sweeps_ended"]
    for key, balance in (("shares", None), ("shares balanced by samples", "samples")):
        for workers, expected in case[key].items():
            shares = [
                model.shares(corpus, settings, taken, int(workers), balance) for taken in steps
            ]
            assert [[[e.time for e in share] for share in step] for step in shares] == expected
