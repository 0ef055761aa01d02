"""Orders that no later version may change, read from files that no test writes.

Keys and mixed words are hexadecimal. The model wrote the files once, by a script that is in the
history as tests/golden/make.py: a changed order is a new `order_version` with files of its own.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests import model
from tests.core import core_timeline, one_block_source
from tests.model import ModelCorpus, ModelSettings

import sweephand as sh
from sweephand import _core

FOLDER = Path(__file__).parents[1] / "golden"


def cases(name: str) -> list[Any]:
    found = json.loads((FOLDER / f"order_1_{name}.json").read_text())
    return [pytest.param(case, id=str(next(iter(case.values())))) for case in found]


PERMUTATIONS = [
    pytest.param(model.Permutation, id="model"),
    pytest.param(_core.order.Permutation, id="core"),
]
MIXING = {
    "mix64": (model.mix64, _core.testing.mix64),
    "derive_key": (lambda words: model.derive_key(*words), _core.base.derive_key),
    "scale": (model.scale, _core.testing.scale),
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
    items = permutation.take(0, case["digested"]).astype("<i8")
    assert hashlib.sha256(items.tobytes()).hexdigest() == case["sha256"]


@pytest.mark.parametrize("case", cases("sweeps"))
def test_a_sweep_is_the_golden_one(case: dict[str, Any]) -> None:
    corpus, settings = ModelCorpus.of(case["chunks"]), ModelSettings(**case["settings"])
    for sweep, order in case["orders"].items():
        entries = model.sweep_entries(corpus, settings, int(sweep))
        assert [entry.sequence for entry in entries] == order
        assert [entry.lane for entry in entries] == case["lanes"][sweep]


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


def served(case: dict[str, Any], **options: Any) -> list[sh.Minibatch]:
    """The minibatches of a case, from a source."""
    corpus, settings = ModelCorpus.of(case["chunks"]), ModelSettings(**case["settings"])
    balance = options.pop("balance", None)
    with one_block_source(corpus, settings, case["limit"], balance=balance) as source:
        source.current_position = case["time"]
        return [
            source.next_minibatch(sh.FULL_DATA_SWEEP if size == -1 else size, **options)
            for size in case["requests"]
        ]


def numbers(minibatch: sh.Minibatch) -> list[int]:
    """The sequences of a minibatch; at the end of data it has no streams."""
    streams = [data.as_sequences() for data in minibatch.values()]
    return [int(values[0]) for sequences in streams for values in sequences]


@pytest.mark.parametrize("case", cases("minibatches"))
def test_minibatches_of_a_source_are_the_golden_ones(case: dict[str, Any]) -> None:
    minibatches = served(case)
    assert [numbers(one) for one in minibatches] == case["sequences"]
    assert [one.sweeps_ended for one in minibatches] == case["sweeps_ended"]
    times = [one.nominal_time for one in minibatches if one]
    assert times == [step[0] for step in case["times"] if step]


@pytest.mark.parametrize("balance", [None, "samples"])
@pytest.mark.parametrize("case", cases("minibatches"))
def test_shares_of_a_source_are_the_golden_ones(
    case: dict[str, Any], balance: str | None
) -> None:
    steps = zip(case["times"], case["sequences"], strict=True)
    sequence_at = [dict(zip(*step, strict=True)) for step in steps]
    shares = case["shares balanced by samples" if balance else "shares"]
    for workers, expected in shares.items():
        for rank in range(int(workers)):
            minibatches = served(
                case, num_data_partitions=int(workers), partition_index=rank, balance=balance
            )
            assert [numbers(one) for one in minibatches] == [
                [at[time] for time in step[rank]]
                for at, step in zip(sequence_at, expected, strict=True)
            ]
