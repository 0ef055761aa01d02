"""Another version of a map, from a nominal time on."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import sweephand as sh

AT = 130


def once(sequence: Any) -> Any:
    return {"x": sequence["x"] + 1000}


def twice(sequence: Any) -> Any:
    return {"x": sequence["x"] + 2000}


def noise(sequence: Any, key: sh.Key) -> Any:
    return {"x": sequence["x"] + key.integer(10**9)}


def corpus() -> sh.ArrayDeserializer:
    lengths = np.random.default_rng(0).integers(1, 9, 60)
    return sh.ArrayDeserializer({"x": [np.full(n, i) for i, n in enumerate(lengths)]})


def values_of(minibatch: sh.Minibatch) -> dict[str, int]:
    firsts = [int(values[0]) for values in minibatch["x"].as_sequences()]
    return dict(zip(minibatch.ids, firsts, strict=True))


def test_a_version_is_taken_while_a_run_goes_on_and_copies_have_it() -> None:
    mapped = corpus().map(once, name="add", versions={2: twice})
    with sh.MinibatchSource(mapped, max_sweeps=2) as source:
        before = source.next_minibatch(50)
        source.events.map_version("add", 2)
        after = source.next_minibatch(50)
        assert min(values_of(before).values()) < 2000 <= min(values_of(after).values())
        assert source.stats()["minibatches"] == 2
        state = source.get_checkpoint_state()
        with pickle.loads(pickle.dumps(source)) as copy:
            assert values_of(copy.next_minibatch(50)) == values_of(source.next_minibatch(50))
        events = list(source.events)
    with sh.MinibatchSource(mapped, max_sweeps=2, events=events) as again:
        assert values_of(again.next_minibatch(50)) == values_of(before)
        again.restore_from_checkpoint(state)
        assert min(values_of(again.next_minibatch(50)).values()) >= 2000


def test_what_is_drawn_is_of_the_version() -> None:
    def values(events: list[Any]) -> dict[str, int]:
        mapped = corpus().map(noise, name="noise", random=True, versions={2: noise})
        with sh.MinibatchSource(mapped, events=events, max_sweeps=1) as source:
            return {k: v for one in source.minibatches(9) for k, v in values_of(one).items()}

    plain, changed = values([]), values([sh.events.MapVersion(at=AT, map="noise", version=2)])
    whole = sh.MinibatchSource(corpus()).sequence_ids(0, AT)
    for name, value in plain.items():
        assert (changed[name] == value) == (name in whole)
    other = corpus().map(noise, name="noise", random=True, version=2)
    with sh.MinibatchSource(other, max_sweeps=1) as source:
        for minibatch in source.minibatches(50):
            for name, value in values_of(minibatch).items():
                assert (changed[name] == value) == (name not in whole)


def test_what_is_no_version_is_refused() -> None:
    for options, why in (
        ({"version": 2, "versions": {2: twice}}, "is the one of the map itself"),
        ({"size": "measured", "versions": {2: twice}}, "no size= or cache="),
        ({"cache": True, "versions": {2: twice}}, "no size= or cache="),
    ):
        with pytest.raises(ValueError, match=why):
            corpus().map(once, name="add", **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="callable"):
        corpus().map(once, name="add", versions={2: "twice"})  # type: ignore[dict-item]
    mapped = corpus().map(once, name="add", versions={2: twice})
    with sh.MinibatchSource(mapped) as source:
        source.next_minibatch(20)
        with pytest.raises(ValueError, match="has no version 3, only 1, 2"):
            source.events.map_version("add", 3)
        with pytest.raises(ValueError, match="there is no map 'sub'"):
            source.events.map_version("sub", 2)
        assert list(source.events) == []
        assert source.next_minibatch(20).num_samples > 0
