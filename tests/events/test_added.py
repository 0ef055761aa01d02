"""A corpus joins a mixture while a run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh

LAYOUTS = [
    sh.Ragged(),
    sh.Packed(2, split_long="split"),
    sh.Bucketed([8, 32]),
    sh.TruncatedBPTT(4),
]
WEIGHTS = {"a": 1, "b": 1, "new": 2}


def corpus(number: int, count: int = 2000) -> sh.ArrayDeserializer:
    rng = np.random.default_rng(number)
    lengths = rng.integers(1, 30, count)
    return sh.ArrayDeserializer(
        {"x": [np.full(n, 10_000 * number + i) for i, n in enumerate(lengths)]}
    )


def source_of(layout: sh.Layout, **options: Any) -> sh.MinibatchSource:
    mixture = sh.Mixture({"a": corpus(1), "b": corpus(2)}, {"a": 1, "b": 1})
    return sh.MinibatchSource(mixture, layout=layout, max_samples=60_000, **options)


def delivered(source: sh.MinibatchSource, size: int = 500) -> list[Any]:
    return [
        (one.nominal_time, one.ids, [int(v[0]) for v in one["x"].as_sequences()])
        for one in source.minibatches(size)
    ]


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_a_corpus_joins_and_nothing_before_changes(layout: sh.Layout) -> None:
    with source_of(layout) as plain:
        before = delivered(plain)
    with source_of(layout) as source:
        found = []
        states = []
        while source.current_position < 10_000:
            minibatch = source.next_minibatch(500)
            found.append((minibatch.nominal_time, minibatch.ids,
                          [int(v[0]) for v in minibatch["x"].as_sequences()]))  # fmt: skip
            states.append(json.loads(json.dumps(source.get_checkpoint_state())))
        source.events.add("new", corpus(3), WEIGHTS)
        states.append(source.get_checkpoint_state())
        rest = delivered(source)
        events = list(source.events)
    assert found == before[: len(found)]
    if layout == LAYOUTS[0]:
        shares = [name.split("/")[0] for _, ids, _ in rest for name in ids]
        assert shares.count("new") == pytest.approx(len(shares) / 2, rel=0.05)
    for _, ids, values in rest:
        number = {"a": 1, "b": 2, "new": 3}
        for name, value in zip(ids, values, strict=True):
            assert value == 10_000 * number[name[: name.index("/")]] + int(name.split("__")[1])
    with source_of(layout, events=events) as known:
        assert delivered(known) == found + rest
    with source_of(layout, events=events) as known:
        for state in (states[3], states[-1]):
            known.restore_from_checkpoint(state)
            assert delivered(known) == (found + rest)[4 if state is states[3] else len(found) :]


def test_data_of_an_added_corpus_are_given_again_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    with source_of(sh.Ragged(), events=path) as source:
        source.events.weights({"a": 2, "b": 1}, at=100)
        source.events.add("new", corpus(3), WEIGHTS, at=1000)
        source.events.retire("new", at=5000)
        whole = delivered(source)
    with pytest.raises(ValueError, match=r"corpora=\{'new': ...\}"):
        source_of(sh.Ragged(), events=path)
    events = sh.events.load(path, corpora={"new": corpus(3)})
    with source_of(sh.Ragged(), events=events) as source:
        assert delivered(source) == whole
    with pytest.raises(ValueError, match="'new' that is added is"):
        source_of(sh.Ragged(), events=sh.events.load(path, corpora={"new": corpus(4)}))


def test_what_cannot_be_added_is_refused_and_the_source_goes_on() -> None:
    with source_of(sh.Ragged()) as source:
        source.next_minibatch(500)
        for name, data, weights, why in (
            ("a", corpus(3), WEIGHTS, "a corpus 'a' in the mixture already"),
            ("new", {"y": np.arange(9)}, WEIGHTS, "the same streams"),
            ("new", corpus(3), {"a": 1, "b": 1, "other": 2}, "no corpus 'other'"),
        ):
            with pytest.raises(ValueError, match=why):
                source.events.add(name, data, weights)
        assert list(source.events) == []
        position = source.current_position
        assert source.next_minibatch(500).nominal_time == position
    with (
        sh.MinibatchSource(corpus(1)) as alone,
        pytest.raises(ValueError, match=r"added to a sh.Mixture"),
    ):
        alone.events.add("new", corpus(3), WEIGHTS)
    rows = sh.Mixture({"a": {"x": np.arange(9)}, "b": {"x": np.arange(5)}}, {"a": 1, "b": 1})
    with (
        sh.MinibatchSource(rows) as even,
        pytest.raises(ValueError, match="share them evenly"),
    ):
        even.events.add("new", corpus(3), WEIGHTS)


def double(sequence: Any) -> Any:
    return {"x": np.repeat(sequence["x"], 2)}


def is_even(sequence: Any) -> bool:
    return bool(sequence["x"][0] % 2 == 0)


def test_what_is_added_is_mapped_and_filtered_as_the_mixture_was() -> None:
    first = {"a": corpus(1, 40), "b": corpus(2, 40)}
    mixture = sh.Mixture(first, {"a": 1, "b": 1}, at_end="drop")
    mixture = mixture.map(double, size="measured").filter(is_even)
    with sh.MinibatchSource(mixture) as source:
        source.events.add("new", corpus(3, 40), WEIGHTS, at=100)
        kept = list(source.events)
        found = {
            name: values.tolist()
            for minibatch in source.minibatches(50)
            for name, values in zip(minibatch.ids, minibatch["x"].as_sequences(), strict=True)
        }
    wanted = {}
    for name, number in (("a", 1), ("b", 2), ("new", 3)):
        with sh.MinibatchSource(corpus(number, 40), max_sweeps=1) as alone:
            for minibatch in alone.minibatches(100):
                for own, x in zip(minibatch.ids, minibatch["x"].as_sequences(), strict=True):
                    if x[0] % 2 == 0:
                        wanted[f"{name}/{own}"] = np.repeat(x, 2).tolist()
    assert found == wanted
    with sh.MinibatchSource(mixture, events=kept) as source:  # its fingerprint is the same
        assert source.events[0] == kept[0]
    mapped = corpus(3, 40).map(double, size="measured")
    with (
        sh.MinibatchSource(mixture) as source,
        pytest.raises(ValueError, match=r"double"),
    ):
        source.events.add("new", mapped, WEIGHTS)
