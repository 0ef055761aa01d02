"""Shares of minibatches of which a worker brings no more into order than it needs.

Minibatches are long, beside the number of lanes: most of each is found by a search in every
lane. One worker alone needs all of it in order: its plan is the oracle beside the model.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import model
from tests.core import core_request, core_timeline
from tests.extent import draws
from tests.model import ModelCorpus, ModelSettings
from tests.strategies import seeds

import sweephand as sh
from sweephand import _core
from sweephand._core.compose import Fitting, Planner

NO_LIMIT = 2**64 - 1
balances = st.one_of(st.none(), st.sampled_from(["samples", "attention"]), st.integers(1, 50))


@st.composite
def long_corpora(draw: st.DrawFn) -> ModelCorpus:
    """Some hundred sequences: equal, unequal, or a few of them very long; empty chunks too."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(300, 900))
    kind = draw(st.sampled_from(["equal", "unequal", "long tail"]))
    if kind == "equal":
        sizes = np.full(count, draw(st.integers(2, 9)))
    else:
        sizes = rng.integers(1, draw(st.sampled_from([3, 9, 40])), count)
    if kind == "long tail":
        sizes[rng.random(count) < 0.02] = 150
    cuts = np.sort(rng.integers(0, count + 1, draw(st.integers(0, 40))))
    return ModelCorpus.of([part.tolist() for part in np.split(sizes, cuts)])


@st.composite
def long_timelines(draw: st.DrawFn) -> tuple[ModelCorpus, ModelSettings]:
    corpus = draw(long_corpora())
    num_lanes = draw(st.integers(4, 11))
    unit = draw(st.sampled_from([None, "chunks", "samples"]))
    window = draw(st.integers(1, corpus.num_samples if unit == "samples" else 60))
    order = ModelSettings(
        seed=draw(seeds()),
        num_lanes=num_lanes,
        window_chunks=window if unit == "chunks" else None,
        window_samples=window if unit == "samples" else None,
    )
    return corpus, order


def size_for(data: st.DataObject, corpus: ModelCorpus, order: ModelSettings) -> int:
    """From too few samples to pass any to two sweeps."""
    mean = corpus.num_samples / len(corpus.sizes)
    least = int(40 * mean * order.num_lanes)
    return data.draw(st.integers(least, max(least, 2 * corpus.num_samples)))


@settings(max_examples=draws(300))
@given(st.data())
def test_shares_are_those_of_the_model(data: st.DataObject) -> None:
    corpus, order = data.draw(long_timelines())
    planner = Planner(core_timeline(corpus, order), Fitting(), NO_LIMIT)
    time = data.draw(st.sampled_from([0, data.draw(st.integers(0, corpus.num_samples))]))
    planner.seek(time)
    time = planner.time
    for _ in range(2):
        size, balance = size_for(data, corpus, order), data.draw(balances)
        workers = data.draw(st.integers(4, order.num_lanes))
        rank = data.draw(st.integers(0, workers - 1))
        plan = planner.next(core_request(size, workers, rank, balance))
        taken = model.minibatch(corpus, order, time, size)
        share = model.shares(corpus, order, taken, workers, balance)[rank]
        assert plan.nominal_time == time
        time += sum(entry.size for entry in taken)
        assert (plan.next.time, plan.num_sequences) == (time, len(taken))
        assert plan.sequences().tolist() == [entry.sequence for entry in share]
        assert plan.sizes().tolist() == [entry.size for entry in share]
        assert plan.sweeps_ended == model.sweeps_ended(corpus, taken)


def test_a_size_that_is_wrong_is_found_where_the_order_comes_to_it() -> None:
    """A worker among many plans as many minibatches before the error as one alone."""

    def sizes(firsts: NDArray[np.uint64], counts: NDArray[np.uint64]) -> NDArray[np.uint32]:
        parts = [np.full(count, 2, np.uint32) for count in counts]
        for first, part in zip(firsts, parts, strict=True):
            if first == 1500:
                part[0] = 3
        return np.concatenate(parts)

    corpus = _core.index.Corpus(
        np.full(60, 50, np.uint64),
        np.full(60, 100, np.uint64),
        _core.index.CallbackSizes(sizes),
    )
    order = _core.order.OrderSettings(
        seed=5, num_lanes=4, window_chunks=4, window_samples=0, randomize=True
    )
    planned: list[list[int | str]] = []
    for workers in (1, 4):
        timeline = _core.order.SweepTimeline(corpus, order)
        planner = Planner(timeline, Fitting(), NO_LIMIT)
        plans: list[int | str] = []
        try:
            while len(plans) < 100:
                plans.append(planner.next(core_request(600, workers)).next.time)
        except sh.DataError as error:
            plans.append(error.reason)
        planned.append(plans)
    assert planned[0] == planned[1]
    assert 1 < len(planned[0]) < 100
