"""The timeline of the core, against the model: laws 1, 2, 8 and 11 of the order."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model
from tests.core import core_timeline
from tests.model import ModelCorpus, ModelSettings
from tests.strategies import timelines, times

from sweephand import _core

FAR = 10**6  # a sweep


@given(timelines(), st.sampled_from([0, 1, 2, FAR]), st.booleans())
def test_a_sweep_is_that_of_the_model(
    timeline: tuple[ModelCorpus, ModelSettings], sweep: int, offsets: bool
) -> None:
    corpus, settings = timeline
    start = sweep * corpus.num_samples
    core = core_timeline(corpus, settings, offsets=offsets)
    order = core.sequences(start, start + corpus.num_samples).tolist()
    assert order == model.sweep_order(corpus, settings, sweep)
    assert sorted(order) == list(range(corpus.num_sequences))


@pytest.mark.parametrize("num_lanes", [129, 1024, 5000])
@pytest.mark.parametrize("most", [1, 9])
def test_many_lanes_are_those_of_the_model(num_lanes: int, most: int) -> None:
    """Lanes that come soon are fetched, those of a sweep that is short may be empty."""
    corpus = ModelCorpus.of([[(c * i) % most + 1 for i in range(20)] for c in range(100)])
    settings = ModelSettings(seed=2, num_lanes=num_lanes, window_chunks=num_lanes * 2)
    start = 3 * corpus.num_samples
    core = core_timeline(corpus, settings)
    expected = model.sweep_order(corpus, settings, 3)
    assert core.sequences(start, start + corpus.num_samples).tolist() == expected
    later = core.sequences(start + corpus.num_samples // 2, start + corpus.num_samples)
    assert later.tolist() == expected[len(expected) - len(later) :]


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize(("num_lanes", "window_chunks"), [(8, 8), (8, 24), (60, 60), (61, 0)])
def test_a_place_in_blocks_that_are_dealt_in_part_is_that_of_who_reads_on(
    num_lanes: int, window_chunks: int, common: bool
) -> None:
    """Chunks of up to 300 sequences, some of none: places near their ends, too."""
    counts = [(37 * c * c) % 301 if c % 7 else 0 for c in range(60)]
    sizes_of = [[(c * i * i) % 40 + 1 for i in range(n)] for c, n in enumerate(counts)]
    corpus = ModelCorpus.of([[3 for _ in one] if common else one for one in sizes_of])
    settings = ModelSettings(seed=5, num_lanes=num_lanes, window_chunks=window_chunks or None)
    core = core_timeline(corpus, settings)
    order = model.sweep_order(corpus, settings, 1)
    begin, end = corpus.num_samples, 2 * corpus.num_samples
    sizes = np.array(corpus.sizes)[order]
    times = begin + np.cumsum(sizes) - sizes
    near_an_end = [0, 1, 2, len(order) - 1]
    for at in [*near_an_end, *range(3, len(order), len(order) // 20)]:
        assert core.sequences(times[at], end).tolist() == order[at:]
        assert core.find(order[at], 1) == times[at]
        if at + 1 < len(order):
            assert core.sequences(times[at] + 1, end).tolist() == order[at + 1 :]


@given(st.data())
def test_what_starts_between_two_times_is_found_wherever_they_lie(data: st.DataObject) -> None:
    corpus, settings = data.draw(timelines())
    start = data.draw(times(corpus))
    stop = start + data.draw(st.integers(0, 3 * corpus.num_samples))
    expected = itertools.takewhile(
        lambda entry: entry.time < stop, model.timeline(corpus, settings, start)
    )
    found = core_timeline(corpus, settings).sequences(start, stop)
    assert found.tolist() == [entry.sequence for entry in expected]


@given(st.data())
def test_the_time_of_a_sequence_is_found(data: st.DataObject) -> None:
    corpus, settings = data.draw(timelines())
    sequence = data.draw(st.integers(0, corpus.num_sequences - 1))
    sweep = data.draw(st.sampled_from([0, 1, FAR]))
    core = core_timeline(corpus, settings)
    time = core.find(sequence, sweep)
    assert time == model.find(corpus, settings, sequence, sweep)
    assert core.sequences(time, time + 1).tolist() == [sequence]


@pytest.mark.parametrize("sizes", [(1,), (1, 2, 3)])
def test_a_block_beyond_the_table_is_the_permutation_of_the_model(
    sizes: tuple[int, ...],
) -> None:
    count = 2**20 + 77
    chunk = tuple(itertools.islice(itertools.cycle(sizes), count))
    corpus = ModelCorpus((chunk[:1000], (), chunk[1000:]))
    core = core_timeline(corpus, ModelSettings(seed=5, num_lanes=1))
    key = model.derive_key(model.ORDER_VERSION, 5, 2, 1, 0)
    order = model.Permutation(count, key).take(0, count)
    found = core.sequences(corpus.num_samples, 2 * corpus.num_samples)
    assert np.array_equal(found, order)
    times = corpus.num_samples + np.cumsum([0, *np.array(chunk)[order]])
    for place in range(0, count, count // 7):
        assert core.find(order[place], 1) == times[place]


@pytest.mark.parametrize("num_chunks", [1000, 2**20, 2**20 + 1000])
def test_a_place_is_found_whatever_the_chunks_hold(num_chunks: int) -> None:
    """With one lane and blocks of one chunk the order is that of the chunks."""
    sizes = (np.arange(num_chunks) * 7 % 5 + 1).astype(np.uint32)
    corpus = _core.index.Corpus(
        np.ones(num_chunks, np.uint64), sizes.astype(np.uint64), _core.index.StoredSizes(sizes)
    )
    settings = _core.order.OrderSettings(
        seed=3, num_lanes=1, window_chunks=1, window_samples=0, randomize=True
    )
    timeline = _core.order.SweepTimeline(corpus, settings)
    order = _core.order.Permutation(num_chunks, model.derive_key(1, 3, 1, 2))
    chunks = order.take(0, num_chunks)
    starts = np.cumsum(sizes[chunks]) - sizes[chunks]
    sweep = 2 * int(sizes.sum())
    for place in (0, 1, 255, 256, 257, num_chunks // 2, num_chunks - 1):
        start = int(starts[place])
        assert timeline.sequences(sweep + start, sweep + start + 1).tolist() == [chunks[place]]
        assert timeline.find(int(chunks[place]), 2) == sweep + start
