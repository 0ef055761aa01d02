"""The digest of events: lists that serve other data have others, and one list has one."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import sweephand as sh

E = sh.events


def corpus(number: int, count: int = 60) -> sh.ArrayDeserializer:
    rng = np.random.default_rng(number)
    lengths = rng.integers(1, 9, count)
    return sh.ArrayDeserializer(
        {"x": [np.full(n, 1000 * number + i) for i, n in enumerate(lengths)]}
    )


def negated(sequence: dict[str, Any]) -> dict[str, Any]:
    return {"x": -sequence["x"]}


def as_it_is(sequence: dict[str, Any]) -> dict[str, Any]:
    return {"x": sequence["x"]}


def moved(sequence: dict[str, Any]) -> dict[str, Any]:
    return {"x": sequence["x"] + 100_000}


def mixture() -> sh.Mixture:
    def mapped(number: int) -> Any:
        data = corpus(number).map(as_it_is, name="first", versions={2: negated, 3: moved})
        return data.map(as_it_is, name="second", versions={2: moved})

    return sh.Mixture({"a": mapped(1), "b": mapped(2)}, {"a": 1, "b": 1})


ALL = {"a": 1, "b": 2}


def kinds(at: int) -> list[Any]:
    """Events of all kinds, several of each, of one time."""
    return [
        E.Ban(at=at, ids=("a/array__1", "b/array__3")),
        E.Ban(at=at, ids=("a/array__1", "a/array__7")),
        E.Skip(at=at, stop=at + 40),
        E.Skip(at=at, stop=at + 90),
        E.Weights(at=at, weights=ALL),
        E.Weights(at=at, weights={**ALL, "a": 5}),
        E.MapVersion(at=at, map="first", version=2),
        E.MapVersion(at=at, map="first", version=3),
        E.MapVersion(at=at, map="second", version=2),
    ]


LAYOUTS = [sh.Ragged(), sh.Packed(8), sh.Bucketed([4, 9]), sh.TruncatedBPTT(4)]


def served(layout: sh.Layout, events: list[Any]) -> tuple[str, list[Any]] | None:
    """The digest, and what comes; None if the list is refused."""
    try:
        with sh.MinibatchSource(
            mixture(), layout=layout, events=events, max_samples=2500, num_lanes=4
        ) as source:
            found = [
                (one.nominal_time, one.ids, one["x"].values.tolist())
                for one in source.minibatches(100)
            ]
            return source.events.digest, found
    except ValueError:
        return None


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_lists_of_one_digest_serve_the_same_in_whichever_order(
    layout: sh.Layout, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    at = int(rng.integers(0, 400))
    tied = rng.choice(np.array(kinds(at), object), 3 + seed % 2, replace=False)
    runs: dict[str, list[Any]] = {}
    orders = list(permutations(tied))
    for events in orders[:: len(orders) // 6]:
        found = served(layout, list(events))
        if found is not None:
            assert runs.setdefault(*found) == found[1], events


def test_weights_of_one_time_are_other_runs_in_another_order() -> None:
    one, other = E.Weights(at=500, weights={"a": 9, "b": 1}), E.Weights(
        at=500, weights={"a": 1, "b": 9}
    )  # fmt: skip
    found = [served(sh.Ragged(), events) for events in ([one, other], [other, one])]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0][1] != found[1][1]
    assert found[0][0] != found[1][0]
    with sh.MinibatchSource(mixture(), events=[one, other]) as source:
        while source.current_position < 600:
            source.next_minibatch(100)
        state = source.get_checkpoint_state()
    with (
        sh.MinibatchSource(mixture(), events=[other, one]) as source,
        pytest.raises(sh.StateError, match="other ones than those in the state"),
    ):
        source.restore_from_checkpoint(state)


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_a_list_is_one_run_whenever_its_entries_were_added(layout: sh.Layout) -> None:
    early, late = kinds(300)[4], kinds(700)[5]
    events = [early, late, kinds(500)[5], kinds(200)[0], kinds(600)[7]]
    found = [served(layout, list(one)) for one in list(permutations(events))[::17]]
    assert found[0] is not None
    assert all(one == found[0] for one in found)
