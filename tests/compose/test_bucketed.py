"""Bucketed minibatches, against the model."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model_layouts as layouts
from tests.core import core_request, core_timeline
from tests.model import ModelCorpus, ModelSettings
from tests.strategies import timelines

from sweephand import _core

NO_LIMIT = 2**64 - 1

Taken = tuple[int, int, list[int], int]  # time, bucket key, sequences, sweeps ended


def planner(
    corpus: ModelCorpus,
    settings: ModelSettings,
    boundaries: list[int],
    limit: int = NO_LIMIT,
    num_sequences: int = 0,
) -> _core.compose.Planner:
    timeline = core_timeline(corpus, settings)
    return _core.compose.Planner(
        timeline, _core.compose.Bucketing(boundaries, num_sequences), limit
    )


def taken(plan: _core.compose.Plan) -> Taken:
    return plan.nominal_time, plan.row_length, plan.sequences().tolist(), plan.sweeps_ended


def core_minibatches(core: _core.compose.Planner, requests: list[int]) -> Iterator[Taken]:
    for request in requests:
        plan = core.next(core_request(request))
        if plan.end_of_data:
            return
        yield taken(plan)


def model_minibatches(
    corpus: ModelCorpus,
    settings: ModelSettings,
    boundaries: list[int],
    requests: list[int],
    limit: int | None = None,
    num_sequences: int = 0,
) -> list[Taken]:
    found = layouts.bucketed(corpus, settings, boundaries, iter(requests), limit, num_sequences)
    return [
        (m.time, m.key, [entry.sequence for entry in m.entries], m.sweeps_ended) for m in found
    ]


@st.composite
def bucketings(draw: st.DrawFn) -> tuple[ModelCorpus, ModelSettings, list[int]]:
    corpus, settings = draw(timelines())
    longest = max(corpus.sizes)
    inner = draw(st.sets(st.integers(1, longest + 3), max_size=5))
    return corpus, settings, sorted({*inner, draw(st.integers(longest, longest + 3))})


@given(st.data())
def test_minibatches_are_those_of_the_model_whatever_sizes_are_asked_for(
    data: st.DataObject,
) -> None:
    corpus, settings, boundaries = data.draw(bucketings())
    size = st.integers(1, 3 * max(boundaries))
    requests = data.draw(st.lists(size, min_size=1, max_size=30))
    limit = data.draw(st.one_of(st.none(), st.integers(1, 3 * corpus.num_samples)))
    core = planner(corpus, settings, boundaries, NO_LIMIT if limit is None else limit)
    expected = model_minibatches(corpus, settings, boundaries, requests, limit)
    assert list(core_minibatches(core, requests)) == expected


@given(bucketings(), st.integers(1, 60), st.data())
def test_with_one_size_nominal_time_alone_is_a_place(
    bucketing: tuple[ModelCorpus, ModelSettings, list[int]], size: int, data: st.DataObject
) -> None:
    corpus, settings, boundaries = bucketing
    expected = model_minibatches(corpus, settings, boundaries, [size] * 40)
    times = [minibatch[0] for minibatch in expected]
    time = data.draw(st.integers(0, times[-1]))
    core = planner(corpus, settings, boundaries)
    core.seek(time)
    assert core.time == time
    rest = [minibatch for minibatch in expected if minibatch[0] >= time]
    assert list(core_minibatches(core, [size] * len(rest))) == rest


@given(bucketings(), st.integers(1, 60), st.data())
def test_the_time_of_a_sequence_is_found_for_a_size(
    bucketing: tuple[ModelCorpus, ModelSettings, list[int]], size: int, data: st.DataObject
) -> None:
    corpus, settings, boundaries = bucketing
    sequence = data.draw(st.integers(0, corpus.num_sequences - 1))
    sweep = data.draw(st.sampled_from([0, 1, 10**6]))
    core = planner(corpus, settings, boundaries)
    found = core.find(sequence, sweep, size)
    for minibatch in layouts.bucketed(
        corpus, settings, boundaries, itertools.repeat(size), first_sweep=sweep
    ):
        begins = itertools.accumulate(
            (e.size for e in minibatch.entries), initial=minibatch.time
        )
        times = dict(zip((e.sequence for e in minibatch.entries), begins, strict=False))
        if sequence in times:
            break
    assert found == times[sequence]
    assert core.sequences_in(found, found + 1, size).tolist() == [sequence]


@given(bucketings(), st.integers(1, 8))
def test_minibatches_may_be_of_a_number_of_sequences(
    bucketing: tuple[ModelCorpus, ModelSettings, list[int]], count: int
) -> None:
    corpus, settings, boundaries = bucketing
    core = planner(corpus, settings, boundaries, num_sequences=count)
    expected = model_minibatches(corpus, settings, boundaries, [1] * 20, num_sequences=count)
    assert list(core_minibatches(core, [1] * 20)) == expected


def test_lengths_do_not_tell_when_a_minibatch_comes() -> None:
    sizes = np.random.default_rng(0).lognormal(np.log(30), 1, 20_000)
    corpus = ModelCorpus.of([np.clip(np.rint(sizes), 1, 256).astype(int).tolist()])
    core = planner(corpus, ModelSettings(seed=11), [8, 16, 32, 64, 128, 256])
    keys = []
    while True:
        _, key, _, ended = taken(core.next(core_request(2048)))
        keys.append(key)
        if ended:
            break
    tenths = [part.mean() for part in np.array_split(np.array(keys), 10)]
    deviation = np.std(keys) / np.sqrt(len(keys) / 10)
    assert np.abs(np.array(tenths) - np.mean(keys)).max() < 3.5 * deviation
    changes = np.mean(np.diff(keys) != 0)
    chances = np.unique(keys, return_counts=True)[1] / len(keys)
    assert changes == pytest.approx(1 - (chances**2).sum(), abs=0.05)


def test_progress_of_another_place_is_refused() -> None:
    corpus = ModelCorpus.of([[3, 2, 4]])
    core = planner(corpus, ModelSettings(), [4])
    for time, progress in [(3, [2]), (9, [4]), (2, [1, 0]), (1, [1])]:
        with pytest.raises(ValueError, match="no minibatch ends at nominal time"):
            core.resume(_core.compose.Position(time, progress))
