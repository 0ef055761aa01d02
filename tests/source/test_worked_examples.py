"""Limits, fill and the end of data, by examples that were worked out by hand."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sources import numbers

import sweephand as sh

SESSION = [7, *[2] * 9]  # ten sequences, 25 samples a sweep


def unshuffled(lengths: list[int], **options: Any) -> sh.MinibatchSource:
    data = {"x": (np.arange(sum(lengths)), np.cumsum([0, *lengths]))}
    return sh.MinibatchSource(sh.ArrayDeserializer(data), randomize=False, **options)


def test_minibatches_of_four_samples_hold_what_fits() -> None:
    wanted = [
        ([7], 7, False),  # alone
        *(([2, 2], time, False) for time in (11, 15, 19, 23)),
        ([2], 25, True),  # the 7 does not fit after it
        ([7], 32, False),
    ]
    with unshuffled(SESSION) as source:
        for lengths, time, end_of_sweep in wanted:
            minibatch = source.next_minibatch(4)
            assert minibatch["x"].lengths.tolist() == lengths
            assert source.current_position == time
            assert minibatch.end_of_sweep == end_of_sweep


def test_a_long_sequence_of_the_next_sweep_is_not_taken_out_of_turn() -> None:
    with unshuffled([7, 2]) as source:
        source.current_position = 7
        minibatch = source.next_minibatch(5)
        assert minibatch["x"].lengths.tolist() == [2]
        assert (minibatch.end_of_sweep, minibatch.sweeps_ended) == (True, 1)


@pytest.mark.parametrize(
    ("lengths", "max_samples", "delivered"),
    [
        ([3, 3, 3], 4, 6),
        ([3, 3, 3], 3, 3),
        ([3, 3, 3], 1, 3),
        ([3, 3, 3], 10, 12),
        ([5], 11, 15),
    ],
)
def test_a_sequence_that_starts_before_the_limit_is_delivered_whole(
    lengths: list[int], max_samples: int, delivered: int
) -> None:
    for size in (1, 4, 100):
        with unshuffled(lengths, max_samples=max_samples) as source:
            assert not source.is_infinite
            assert sum(mb.num_samples for mb in source.minibatches(size)) == delivered
            assert source.current_position == delivered
            assert not source.next_minibatch(size)
            assert not source.next_minibatch(sh.FULL_DATA_SWEEP)


@pytest.mark.parametrize(
    "limit",
    [
        {"max_samples": sh.FULL_DATA_SWEEP},
        {"max_sweeps": sh.FULL_DATA_SWEEP},
        {"max_sweeps": 1},
        {"max_samples": 25},
    ],
)
@pytest.mark.parametrize("size", [1, 4, 25, 1000, sh.FULL_DATA_SWEEP])
def test_four_spellings_of_one_sweep_give_the_same(limit: dict[str, int], size: int) -> None:
    with unshuffled(SESSION, **limit) as source:
        ids = [name for minibatch in source.minibatches(size) for name in minibatch.ids]
        assert numbers(ids) == list(range(10))


def test_a_request_that_spans_sweeps_counts_them() -> None:
    with unshuffled([1] * 7) as source:
        minibatch = source.next_minibatch(1000)
        assert minibatch.end_of_sweep
        assert minibatch.sweeps_ended == 142
        assert minibatch["x"].end_of_sweep
        assert [source.next_minibatch(1).sweeps_ended for _ in range(3)] == [1, 0, 0]


def test_a_full_data_sweep_is_everything_to_the_end_of_the_sweep() -> None:
    with unshuffled(SESSION) as source:
        source.next_minibatch(9)
        assert source.next_minibatch(sh.FULL_DATA_SWEEP).num_samples == 16
        assert source.next_minibatch(sh.FULL_DATA_SWEEP).num_samples == 25
        assert source.current_position == 50
    with unshuffled(SESSION, max_samples=30) as source:
        assert [mb.num_samples for mb in source.minibatches(sh.FULL_DATA_SWEEP)] == [25, 7]


def test_end_of_data_is_falsy_at_every_further_call_and_an_empty_share_is_not() -> None:
    with unshuffled([2, 2], max_sweeps=1) as source:
        share = source.next_minibatch(2, num_data_partitions=3, partition_index=2)
        assert share
        assert share["x"].values.shape == (0,)
        assert share.global_num_samples == 2
        last = source.next_minibatch(2, num_data_partitions=3, partition_index=1)
        assert (bool(last), last.num_sequences, last.end_of_sweep) == (True, 0, True)
        for _ in range(5):
            assert not source.next_minibatch(2, num_data_partitions=3, partition_index=0)
        assert source.current_position == 4


def test_an_iteration_takes_its_sizes_from_a_schedule() -> None:
    class Doubling:
        def __getitem__(self, samples_seen: int) -> int:
            return 1 if samples_seen < 2 else 2

    with unshuffled([1] * 5, max_sweeps=1) as source:
        assert [mb.num_samples for mb in source.minibatches(Doubling())] == [1, 1, 2, 1]
    with unshuffled([1] * 5, max_sweeps=1) as source:
        assert [mb.num_samples for mb in source.minibatches(np.int64(3))] == [3, 2]  # type: ignore[arg-type]


# MinibatchSourceFromData ----------------------------------------------------------------------


@given(
    st.integers(1, 13), st.integers(1, 14), st.integers(1, 5), st.sampled_from([1, 2, 3, None])
)
def test_data_are_dealt_in_their_order_and_no_minibatch_crosses_their_end(
    count: int, size: int, workers: int, sweeps: int | None
) -> None:
    steps = []
    for rank in range(workers):
        limit = sh.INFINITELY_REPEAT if sweeps is None else sweeps * count
        with sh.MinibatchSourceFromData({"x": np.arange(count)}, max_samples=limit) as source:
            shares = source.minibatches(size, num_data_partitions=workers, partition_index=rank)
            steps.append(list(itertools.islice(shares, 3 * -(-count // size))))
    wanted = [list(range(i, min(i + size, count))) for i in range(0, count, size)]
    wanted *= sweeps or 3
    for taken, shares in zip(wanted, zip(*steps, strict=True), strict=True):
        assert [share["x"].values.tolist() for share in shares] == [
            taken[rank::workers] for rank in range(workers)
        ]
        assert {share.global_num_samples for share in shares} == {len(taken)}
        assert {share.end_of_sweep for share in shares} == {taken[-1] == count - 1}


@pytest.mark.parametrize(
    ("streams", "error", "message"),
    [
        ({}, ValueError, "give at least one stream"),
        ({"x": np.zeros(0)}, ValueError, "the corpus is empty"),
        ({"x": []}, ValueError, "the corpus is empty"),
        ({"x": np.zeros(3), "y": np.zeros(2)}, ValueError, "'x' has 3, 'y' has 2"),
        ({"x": 3}, TypeError, "stream 'x' must have a first axis"),
        ({"x": {1: 2}}, TypeError, "stream 'x' holds Python objects"),
    ],
)
def test_data_that_are_none_are_refused(
    streams: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sh.MinibatchSourceFromData(streams)
