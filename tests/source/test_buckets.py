"""Minibatches of buckets: what the model plans."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model_layouts as layouts
from tests.source.rows import KINDS, source_of
from tests.sources import as_served, engines
from tests.strategies import timelines

import sweephand as sh


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_bucketed_minibatches_are_those_of_the_model(kind: str, data: st.DataObject) -> None:
    corpus, settings = as_served(kind, *data.draw(timelines()))
    longest = max(corpus.sizes)
    boundaries = sorted({*data.draw(st.sets(st.integers(1, longest), max_size=4)), longest})
    side = data.draw(st.sampled_from(["left", "right"]))
    layout = sh.Bucketed(boundaries, pad_value={"tokens": -1}, side=side)
    requests = data.draw(st.lists(st.integers(1, 3 * longest), min_size=1, max_size=20))
    starts = [0, *itertools.accumulate(corpus.sizes)]
    expected = layouts.bucketed(corpus, settings, boundaries, iter(requests))
    options = data.draw(engines())
    with source_of(kind, corpus, settings, layout=layout, **options) as source:
        for request, wanted in zip(requests, expected, strict=True):
            minibatch = source.next_minibatch(request)
            assert minibatch.bucket_key == wanted.key
            assert minibatch.nominal_time == wanted.time
            assert minibatch.sweeps_ended == wanted.sweeps_ended
            shape = (len(wanted.entries), wanted.key)
            tokens = np.full(shape, -1)
            for row, entry in enumerate(wanted.entries):
                run = np.arange(starts[entry.sequence], starts[entry.sequence + 1])
                cells = slice(entry.size) if side == "right" else slice(-entry.size, None)
                tokens[row, cells] = run
            assert np.array_equal(minibatch["tokens"].asarray(), tokens)
            assert np.array_equal(minibatch["tokens"].mask > 0, tokens >= 0)
            assert dict(minibatch.provide_data) == {
                "tokens": shape,
                "pairs": (*shape, 2),
                "number": shape,
            }
            assert minibatch.provide_label == []
            assert minibatch.fill_ratio == minibatch.num_samples / tokens.size


@given(st.data())
def test_buckets_continue_from_a_state_whatever_was_asked_for(data: st.DataObject) -> None:
    corpus, settings = as_served("array", *data.draw(timelines()))
    layout = sh.Bucketed("auto", 3)
    sizes = st.integers(1, 3 * max(corpus.sizes))
    with source_of("array", corpus, settings, layout=layout) as source:
        for size in data.draw(st.lists(sizes, max_size=8)):
            source.next_minibatch(size)
        state = json.loads(json.dumps(source.get_checkpoint_state()))
        rest = data.draw(st.lists(sizes, min_size=1, max_size=5))
        expected = [source.next_minibatch(size).ids for size in rest]
    with source_of("array", corpus, settings, layout=layout, **data.draw(engines())) as again:
        again.restore_from_checkpoint(state)
        assert [again.next_minibatch(size).ids for size in rest] == expected


def test_automatic_boundaries_are_told() -> None:
    sizes = [2] * 6 + [3] * 2 + [5] * 3 + [9] * 2 + [12]
    corpus = sh.ArrayDeserializer({"ids": (np.zeros(63), np.cumsum([0, *sizes]))})
    source = sh.MinibatchSource(corpus, layout=sh.Bucketed("auto", num_buckets=3))
    layout = source.layout
    assert isinstance(layout, sh.Bucketed)
    assert layout.boundaries == (2, 5, 12)
    assert layout.default_bucket_key == 12
    with pytest.raises(ValueError, match=r"boundaries are chosen .* see source.layout"):
        _ = sh.Bucketed("auto").default_bucket_key


def test_a_minibatch_of_a_bucket_may_count_sequences() -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.zeros(100), np.arange(0, 101, 5))})
    layout = sh.Bucketed([8], num_sequences=6)
    with sh.MinibatchSource(corpus, layout=layout, max_sweeps=1) as source:
        assert [minibatch.num_sequences for minibatch in source.minibatches(1)] == [6, 6, 6, 2]


def test_labels_have_shapes_of_their_own() -> None:
    corpus = sh.ArrayDeserializer(
        {"data": (np.arange(6), [0, 4, 6]), "labels": (np.arange(6), [0, 4, 6])}
    )
    minibatch = sh.MinibatchSource(corpus, layout=sh.Bucketed([5])).next_minibatch(10)
    assert minibatch.provide_data == [("data", (2, 5))]
    assert minibatch.provide_label == [("labels", (2, 5))]


def test_a_sequence_longer_than_the_last_boundary_is_an_error_or_dropped() -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.arange(12), [0, 3, 12])})
    with pytest.raises(ValueError, match=r"1 of 2 .* last boundary, 8; .* 'array__1' with 9"):
        sh.MinibatchSource(corpus, layout=sh.Bucketed([4, 8]))
    source = sh.MinibatchSource(corpus, layout=sh.Bucketed([4, 8], drop_long=True))
    assert source.num_sequences_per_sweep == 1
    assert source.stats()["dropped_samples"] == 9


def test_finding_in_buckets_needs_a_size() -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.arange(12), [0, 3, 5, 12])})
    for layout in (sh.Bucketed([8]), sh.TruncatedBPTT(2)):
        source = sh.MinibatchSource(corpus, layout=layout)
        with pytest.raises(ValueError, match=r"depends on the minibatch size.* ask for a"):
            source.find("array__1")
        minibatch = source.next_minibatch(8)
        assert source.find(minibatch.ids[0]) == 0
        assert source.sequence_ids(0, 1) == minibatch.ids[:1]
