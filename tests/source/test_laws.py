"""The laws of the order, on what sources deliver and without asking the model."""

import itertools
from collections import Counter
from contextlib import ExitStack
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.model import ModelCorpus, ModelSettings
from tests.sources import KINDS, as_served, engines, numbers, request_of, serving
from tests.strategies import (
    requests,
    timelines,
    unit_corpora,
    workers,
)

import sweephand as sh

SWEEPS = 2


def shares(sources: list[sh.MinibatchSource], request: int, count: int) -> list[sh.Minibatch]:
    """One minibatch, the share of each of `count` workers."""
    return [
        source.next_minibatch(request, num_data_partitions=count, partition_index=rank)
        for rank, source in enumerate(sources[:count])
    ]


def is_part_of(part: list[str], whole: list[str]) -> bool:
    """Whether `part` is `whole` with some entries left out."""
    rest = iter(whole)
    return all(name in rest for name in part)


@given(st.data())
def test_a_sweep_delivers_every_sequence_once_over_workers_that_come_and_go(
    data: st.DataObject,
) -> None:
    """Law 1."""
    kind = data.draw(st.sampled_from(KINDS))
    corpus, settings = as_served(kind, *data.draw(timelines()))
    counts = workers(settings).filter(lambda count: count <= 5)
    delivered: Counter[str] = Counter()
    time = 0
    with ExitStack() as stack:
        sources = [
            stack.enter_context(
                serving(kind, corpus, settings, num_threads=rank % 2, max_sweeps=1)
            )
            for rank in range(5)
        ]
        while time < corpus.num_samples:
            count = data.draw(counts)
            for source in sources:
                source.current_position = time
            step = shares(sources, request_of(data.draw(requests(corpus))), count)
            delivered.update(name for minibatch in step for name in minibatch.ids)
            time += step[0].global_num_samples
        assert not any(shares(sources, 1, 1))
    assert sorted(numbers(list(delivered))) == list(range(corpus.num_sequences))
    assert set(delivered.values()) == {1}


@given(st.data())
def test_the_order_depends_on_corpus_seed_and_randomization_alone(data: st.DataObject) -> None:
    """Law 2: not on deserializer, size, workers, threads or prefetch."""
    corpus, settings = as_served("array", *data.draw(timelines()))
    if settings.window_samples is None and settings.window_chunks is None:
        _, settings = as_served("told chunks", corpus, settings)
    end = SWEEPS * corpus.num_samples
    orders = []
    for kind in KINDS:
        options = data.draw(engines())
        with serving(kind, corpus, settings, max_sweeps=SWEEPS, **options) as source:
            request = request_of(data.draw(requests(corpus)))
            order = [numbers(minibatch.ids) for minibatch in source.minibatches(request)]
            orders.append(list(itertools.chain(*order)))
            assert numbers(source.sequence_ids(0, end)) == orders[-1]
    assert orders == [orders[0]] * len(KINDS)


@given(st.data())
def test_minibatches_of_any_sizes_are_one_timeline(data: st.DataObject) -> None:
    """Law 3."""
    corpus, settings = as_served("array", *data.draw(timelines()))
    end = SWEEPS * corpus.num_samples
    with serving(
        "array", corpus, settings, max_sweeps=SWEEPS, **data.draw(engines())
    ) as source:
        timeline = source.sequence_ids(0, end)
        found: list[str] = []
        while minibatch := source.next_minibatch(request_of(data.draw(requests(corpus)))):
            found += minibatch.ids
        assert found == timeline
        assert source.current_position == end


@given(st.data())
def test_a_minibatch_of_2k_rows_is_exactly_two_of_k(data: st.DataObject) -> None:
    """Law 3, across the end of a sweep too."""
    corpus, settings = as_served("array", *data.draw(timelines(unit_corpora())))
    half = data.draw(st.integers(1, 2 * corpus.num_samples))
    with (
        serving("array", corpus, settings, **data.draw(engines())) as single,
        serving("array", corpus, settings, **data.draw(engines())) as double,
    ):
        for _ in range(3):
            both = double.next_minibatch(2 * half)
            one, two = single.next_minibatch(half), single.next_minibatch(half)
            assert one.ids + two.ids == both.ids
            assert one.sweeps_ended + two.sweeps_ended == both.sweeps_ended
            assert one["x"].values.tolist() + two["x"].values.tolist() == (
                both["x"].values.tolist()
            )


@given(st.data())
def test_a_minibatch_is_as_many_sequences_as_fit_or_a_single_longer_one(
    data: st.DataObject,
) -> None:
    """Law 4."""
    corpus, settings = as_served("array", *data.draw(timelines()))
    with serving("array", corpus, settings, **data.draw(engines())) as source:
        for _ in range(5):
            request = data.draw(st.integers(1, 2 * corpus.num_samples))
            minibatch = source.next_minibatch(request)
            taken = minibatch.num_samples
            assert taken <= request or minibatch.num_sequences == 1
            end = source.current_position
            follower = numbers(source.sequence_ids(end, end + 1))[0]
            assert taken + corpus.sizes[follower] > request


@given(st.data())
def test_nominal_time_moves_by_the_samples_of_the_global_minibatch(data: st.DataObject) -> None:
    """Law 6, and seeking: a place inside a sequence moves at once to the next one."""
    corpus, settings = as_served("array", *data.draw(timelines()))
    with serving("array", corpus, settings, **data.draw(engines())) as source:
        wanted = data.draw(st.integers(0, 3 * corpus.num_samples))
        source.current_position = wanted
        time = source.current_position
        starts = [
            source.find(f"array__{n}", sweep)
            for n in range(corpus.num_sequences)
            for sweep in range(4)
        ]
        assert time == min(start for start in starts if start >= wanted)
        for _ in range(3):
            count = data.draw(workers(settings))
            minibatch = source.next_minibatch(
                data.draw(st.integers(1, corpus.num_samples)),
                num_data_partitions=count,
                partition_index=data.draw(st.integers(0, count - 1)),
            )
            assert minibatch.nominal_time == time
            time += minibatch.global_num_samples
            assert source.current_position == time


@given(st.data())
def test_shares_are_disjoint_and_their_union_is_the_minibatch(data: st.DataObject) -> None:
    """Law 7, also with the number of workers changing on the way."""
    kind = data.draw(st.sampled_from(KINDS))
    corpus, settings = as_served(kind, *data.draw(timelines()))
    balance = (
        data.draw(st.sampled_from([None, "samples", sh.Attention(equal_at=30)]))
        if settings.randomize
        else None
    )
    options: dict[str, Any] = {"max_sweeps": SWEEPS, "balance": balance}
    with ExitStack() as stack:
        sources = [
            stack.enter_context(
                serving(kind, corpus, settings, num_threads=rank % 2, **options)
            )
            for rank in range(5)
        ]
        alone = stack.enter_context(serving(kind, corpus, settings, max_sweeps=SWEEPS))
        while True:
            count = data.draw(workers(settings).filter(lambda count: count <= 5))
            request = request_of(data.draw(requests(corpus)))
            whole = alone.next_minibatch(request)
            for source in sources[count:]:
                source.current_position = alone.current_position
            parts = shares(sources, request, count)
            assert [bool(part) for part in parts] == [bool(whole)] * count
            if not whole:
                break
            ids = itertools.chain(*(part.ids for part in parts))
            assert Counter(ids) == Counter(whole.ids)
            assert sum(part.num_samples for part in parts) == whole.num_samples
            for part in parts:
                assert is_part_of(part.ids, whole.ids)
                assert part.nominal_time == whole.nominal_time
                assert part.global_num_samples == whole.num_samples
                assert part.sweeps_ended == whole.sweeps_ended
                assert set(part) == set(whole)


@given(st.data())
def test_rows_are_shared_evenly_by_any_number_of_workers(data: st.DataObject) -> None:
    """Law 7: rank r gets m div K + (r < m mod K), also where K does not divide the lanes."""
    corpus, settings = as_served("array", *data.draw(timelines(unit_corpora())))
    count = data.draw(workers(settings))
    rank = data.draw(st.integers(0, count - 1))
    with serving("array", corpus, settings) as source:
        for _ in range(4):
            m = data.draw(st.integers(1, 2 * corpus.num_samples))
            share = source.next_minibatch(m, num_data_partitions=count, partition_index=rank)
            assert share.num_samples == m // count + (rank < m % count)


def test_no_two_sweeps_share_an_order_and_seeds_are_not_shifted_sweeps() -> None:
    """Law 8."""
    corpus = ModelCorpus.of([[1] * 8] * 8)
    orders = set()
    for seed in range(6):
        with serving("array", corpus, ModelSettings(seed)) as source:
            for sweep in range(6):
                orders.add(tuple(source.sequence_ids(64 * sweep, 64 * sweep + 64)))
    assert len(orders) == 36
