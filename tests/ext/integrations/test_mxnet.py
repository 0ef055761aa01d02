"""MXNet's iterator over buckets: its rules, and what it would lose in silence."""

import json
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh
from sweephand.mxnet import BucketSentenceIter

# Of these, with buckets 2 and 4, MXNet serves four, discards one, and leaves two out.
SENTENCES = [[7], [8, 9], [1, 2, 3], [4, 5, 6, 7], [5, 5, 5, 5, 5], [6, 6], [9, 9, 9]]


def told(batches: BucketSentenceIter) -> list[tuple[int, Any, Any]]:
    return [(b.bucket_key, b.data[0].tolist(), b.label[0].tolist()) for b in batches]


def make(*arguments: Any, **options: Any) -> BucketSentenceIter:
    """Make one that may warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BucketSentenceIter(*arguments, **options)


def test_the_worked_example() -> None:
    batches = make(SENTENCES, 2, [2, 4], 0, shuffle=False)
    assert told(batches) == [
        (2, [[7, 0], [8, 9]], [[0, 0], [9, 0]]),
        (4, [[1, 2, 3, 0], [4, 5, 6, 7]], [[2, 3, 0, 0], [5, 6, 7, 0]]),
    ]
    assert batches.default_bucket_key == 4
    assert batches.provide_data == [("data", (2, 4))]
    assert batches.provide_label == [("softmax_label", (2, 4))]
    assert (batches.num_discarded, batches.num_left_over) == (1, 2)


def test_automatic_buckets_are_lengths_that_fill_a_minibatch() -> None:
    batches = make(SENTENCES, 2, None, 0, shuffle=False)
    assert batches.buckets == [2, 3]
    assert batches.num_discarded == 2
    assert [data for _, data, _ in told(batches)] == [
        [[7, 0], [8, 9]],
        [[1, 2, 3], [9, 9, 9]],
    ]


def test_what_is_not_served_is_warned_of_with_its_counts() -> None:
    wanted = r"of 7 sentences 1 are empty or longer .* bucket, 4, .*; 2 fill no minibatch"
    with pytest.warns(UserWarning, match=wanted):
        BucketSentenceIter(SENTENCES, 2, [2, 4])


def test_columns_may_be_sentences_and_numbers_keep_their_type() -> None:
    batches = make(SENTENCES, 2, [2, 4], dtype=np.int64, layout="TN")
    assert batches.provide_data == [("data", (4, 2))]
    for batch in batches:
        assert batch.data[0].shape == batch.label[0].shape == (batch.bucket_key, 2)
        assert batch.provide_data == [("data", (batch.bucket_key, 2))]
        assert batch.provide_label == [("softmax_label", (batch.bucket_key, 2))]
        assert batch.data[0].dtype == np.int64
        assert batch.pad == 0


sentence_lists = st.lists(
    st.lists(st.integers(0, 99), max_size=9), min_size=1, max_size=60
).filter(lambda sentences: any(sentences))


@given(sentence_lists, st.integers(1, 5), st.integers(0, 3))
def test_an_epoch_serves_every_sentence_but_the_left_over_once(
    sentences: list[list[int]], batch_size: int, seed: int
) -> None:
    batches = make(sentences, batch_size, [3, 6, 9], dtype=np.int32, seed=seed)
    known = Counter(tuple(sentence) for sentence in sentences if sentence)
    for _ in range(3):
        served = Counter(
            tuple(row[row >= 0].tolist()) for batch in batches for row in batch.data[0]
        )
        assert not served - known
        assert (known - served).total() == batches.num_left_over
        assert batches.num_discarded == sum(not sentence for sentence in sentences)
        with pytest.raises(StopIteration):
            batches.next()
        batches.reset()


@given(sentence_lists, st.integers(1, 5), st.data())
def test_it_goes_on_from_a_state(
    sentences: list[list[int]], batch_size: int, data: st.DataObject
) -> None:
    batches = make(sentences, batch_size, [3, 6, 9], seed=5)
    for _ in range(data.draw(st.integers(0, 2))):
        batches.reset()
    for _, _ in zip(range(data.draw(st.integers(0, 9))), batches, strict=False):
        pass
    state = json.loads(json.dumps(batches.state_dict()))
    again = make(sentences, batch_size, [3, 6, 9], seed=5)
    again.load_state_dict(state)
    assert told(again) == told(batches)
    again.reset()
    batches.reset()
    assert told(again) == told(batches)


def test_a_state_of_other_data_is_refused() -> None:
    state = make([[1, 2]] * 4, 2).state_dict()
    for other in (make([[1, 3]] * 4, 2), make([[1, 2]] * 4, 1), make([[1, 2]] * 4, 2, seed=1)):
        with pytest.raises(sh.StateError, match="of other sentences, buckets, batch size or"):
            other.load_state_dict(state)
    with pytest.raises(sh.StateError, match="a state has epoch, batch and fingerprint"):
        make([[1, 2]] * 4, 2).load_state_dict({"epoch": 0})
