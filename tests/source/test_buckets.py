"""Minibatches of buckets: what the model plans."""

import numpy as np
import pytest

import sweephand as sh


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
