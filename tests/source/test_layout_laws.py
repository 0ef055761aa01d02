"""The laws, for every layout of rows and buckets: workers and sizes change between calls."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model import ModelCorpus, ModelSettings
from tests.sources import engines, order_options, ragged
from tests.strategies import sequence_corpora, timelines

import sweephand as sh

LONGEST_STATE = 1024
Piece = tuple[str, int, int]  # sequence, its first sample, samples


def layouts_of(corpus: ModelCorpus) -> st.SearchStrategy[sh.Layout]:
    longest = max(corpus.sizes)
    lengths = st.integers(1, 30)
    return st.one_of(
        st.builds(
            sh.Packed,
            lengths,
            st.just("split"),
            look_ahead=st.sampled_from([1, 4, 64]),
        ),
        st.builds(lambda count: sh.Bucketed("auto", count), st.integers(1, 5)),
        st.builds(lambda ends: sh.Bucketed(sorted({*ends, longest})), st.sets(lengths)),
        st.builds(sh.TruncatedBPTT, lengths),
        st.builds(sh.Padded, side=st.sampled_from(["left", "right"]), multiple_of=lengths),
    )


def source_of(
    corpus: ModelCorpus, settings: ModelSettings, layout: sh.Layout, **options: Any
) -> sh.MinibatchSource:
    """Tokens count through the corpus."""
    runs = np.split(np.arange(corpus.num_samples), np.cumsum(corpus.sizes)[:-1])
    deserializer = sh.ArrayDeserializer({"tokens": ragged(list(runs), np.int64)}, chunk_size=4)
    return sh.MinibatchSource(deserializer, layout=layout, **order_options(settings), **options)


def pieces_of(minibatch: sh.Minibatch) -> Iterator[Piece]:
    """Tell by its values where each piece begins."""
    for name, run in zip(minibatch.ids, minibatch["tokens"].as_sequences(), strict=True):
        assert np.array_equal(run, run[0] + np.arange(len(run))), "samples keep their order"
        yield name, int(run[0]), len(run)


def all_shares(
    sources: list[sh.MinibatchSource], size: int, workers: int
) -> tuple[list[list[Piece]], sh.Minibatch]:
    """The pieces of every worker, each from a source of its own, and the last share."""
    shares = []
    for rank, source in enumerate(sources[:workers]):
        minibatch = source.next_minibatch(
            size, num_data_partitions=workers, partition_index=rank
        )
        shares.append(list(pieces_of(minibatch)) if minibatch else [])
    return shares, minibatch


def workers_for(settings: ModelSettings) -> st.SearchStrategy[int]:
    return st.integers(1, min(4, settings.num_lanes))


@given(st.data())
def test_every_sample_comes_once_whoever_asks_for_how_much(data: st.DataObject) -> None:
    corpus, settings = data.draw(timelines(sequence_corpora()))
    layout = data.draw(layouts_of(corpus))
    made = [
        source_of(corpus, settings, layout, max_sweeps=1, **data.draw(engines()))
        for _ in range(4)
    ]
    seen: Counter[int] = Counter()
    while True:
        size, workers = data.draw(st.integers(1, 90)), data.draw(workers_for(settings))
        shares, last = all_shares(made, size, workers)
        assert last.nominal_time == sum(seen.values()) or not last
        if not last:
            break
        delivered = sum(piece[2] for share in shares for piece in share)
        assert delivered == last.global_num_samples
        for _, first, count in itertools.chain(*shares):
            seen.update(range(first, first + count))
        for source in made[workers:]:  # they leave this one out
            source.next_minibatch(size, num_data_partitions=workers, partition_index=0)
    assert seen == Counter(range(corpus.num_samples))
    for source in made:
        source.close()


@given(st.data())
def test_a_state_of_any_minibatch_goes_on_with_other_workers(data: st.DataObject) -> None:
    corpus, settings = data.draw(timelines(sequence_corpora()))
    layout = data.draw(layouts_of(corpus))
    sizes = data.draw(st.lists(st.integers(1, 90), min_size=1, max_size=12))
    with source_of(corpus, settings, layout) as source:
        states, wanted = [], []
        for size in sizes:
            states.append(json.dumps(source.get_checkpoint_state()))
            minibatch = source.next_minibatch(size)
            wanted.append((sorted(pieces_of(minibatch)), minibatch.nominal_time))
    assert max(map(len, states)) < LONGEST_STATE
    again = [source_of(corpus, settings, layout, **data.draw(engines())) for _ in range(4)]
    for begin, state in enumerate(states):
        workers = data.draw(workers_for(settings))
        for source in again:
            source.restore_from_checkpoint(json.loads(state))
        for size, expected in itertools.islice(
            zip(sizes, wanted, strict=True), begin, begin + 3
        ):
            shares, last = all_shares(again, size, workers)
            assert (sorted(itertools.chain(*shares)), last.nominal_time) == expected
            assert len({source.current_position for source in again[:workers]}) == 1
    for source in again:
        source.close()


def test_states_stay_small_with_all_that_makes_them_long() -> None:
    lengths = np.random.default_rng(0).integers(1, 65, 140_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    streams = {
        f"tokens_{number:02}": (np.zeros(offsets[-1], np.uint8), offsets) for number in "ab"
    }
    corpus = sh.ArrayDeserializer(streams, name="n" * 90)
    for layout in (sh.Bucketed(range(1, 65)), sh.Packed(64), sh.TruncatedBPTT(8)):
        with sh.MinibatchSource(
            corpus,
            layout=layout,
            randomization_seed=2**64 - 1,
            randomization_window_in_samples=2**40,
            num_threads=0,
        ) as source:
            source.next_minibatch(2**17)
            longest = 0
            for _ in range(20):
                source.next_minibatch(2**17)
                longest = max(longest, len(json.dumps(source.get_checkpoint_state())))
            assert longest < LONGEST_STATE


@pytest.mark.parametrize(
    "layout", [sh.Packed(8), sh.Bucketed([4, 8]), sh.TruncatedBPTT(4), sh.Padded()]
)
def test_empty_sequences_are_refused_by_name(layout: sh.Layout) -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.arange(6), [0, 4, 4, 6])})
    with pytest.raises((sh.DataError, ValueError), match=r"array__1|sequence 1"):
        sh.MinibatchSource(corpus, layout=layout)
