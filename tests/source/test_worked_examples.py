"""Limits, fill and the end of data, by examples that were worked out by hand."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh

SESSION = [7, *[2] * 9]  # ten sequences, 25 samples a sweep


def unshuffled(lengths: list[int], **options: Any) -> sh.MinibatchSource:
    data = {"x": (np.arange(sum(lengths)), np.cumsum([0, *lengths]))}
    return sh.MinibatchSource(sh.ArrayDeserializer(data), randomize=False, **options)


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
