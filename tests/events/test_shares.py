"""Weights of a mixture that change, as docs/order.md has them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.mixtures.test_order import (
    delivered,
    ids_of,
    random_mixture,
    random_weights,
    source_of,
)
from tests.model_events import ChangedMixture

import sweephand as sh


def changed(rng: np.random.Generator, span: int) -> tuple[ChangedMixture, list[Any]]:
    """A mixture whose weights change, and the events that say so."""
    mixture = random_mixture(rng)
    names = list(mixture.corpora)
    changes: list[Any] = []
    events: list[Any] = []
    for time in sorted(rng.integers(0, span, rng.integers(1, 4)).tolist()):
        weights = random_weights(rng, len(names))
        changes.append((time, weights))
        given = dict(zip(names, weights, strict=True))
        events.append(sh.events.Weights(at=time, weights=given))
    return ChangedMixture(**vars(mixture), changes=changes), events


@pytest.mark.parametrize("seed", range(60))
def test_shares_that_change_are_those_of_the_page(seed: int) -> None:
    rng = np.random.default_rng(300 + seed)
    mixture, events = changed(rng, 400)
    order = list(itertools.islice(mixture.order(), 400))
    if not order:
        return
    ended = len(order) < 400
    with source_of(mixture, events=events) as source:
        for begin in (0, *rng.integers(0, order[-1].time + 1, 3).tolist()):
            expected = [one for one in order if one.time >= begin]
            source.current_position = begin
            while expected:
                minibatch = source.next_minibatch(int(rng.integers(1, 60)))
                taken = expected[: minibatch.num_sequences]
                if not ended and len(taken) == len(expected):
                    break
                assert delivered(minibatch) == ids_of(mixture, taken)
                expected = expected[len(taken) :]


def corpus(name: int, count: int = 3000) -> sh.ArrayDeserializer:
    rng = np.random.default_rng(name)
    lengths = rng.integers(1, 30, count)
    return sh.ArrayDeserializer({"x": [np.full(n, i) for i, n in enumerate(lengths)]})


def test_a_corpus_joins_and_leaves_by_its_weight() -> None:
    both = {"a": corpus(1), "b": corpus(2)}
    all_three = sh.Mixture({**both, "new": corpus(3)}, {"a": 1, "b": 1, "new": 0})
    with (
        sh.MinibatchSource(sh.Mixture(both, {"a": 1, "b": 1})) as without,
        sh.MinibatchSource(all_three) as source,
    ):
        source.events.weights({"a": 1, "b": 1, "new": 2}, at=10_000)
        source.events.weights({"a": 1, "b": 1, "new": 0}, at=30_000)
        assert source.sequence_ids(0, 10_000) == without.sequence_ids(0, 10_000)
        counts = [source.corpus_positions(at)["new"] for at in (10_000, 30_000, 60_000)]
    assert counts[0] == 0
    assert counts[1] == pytest.approx(10_000, abs=60)
    assert counts[2] == pytest.approx(counts[1], abs=30)
