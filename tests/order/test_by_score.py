"""Orders by score, against the model, and what they promise."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model
from tests.core import core_corpus, core_timeline
from tests.model import ModelCorpus, ModelScores, ModelSettings
from tests.strategies import knots, timelines_by_score, times

import sweephand as sh
from sweephand import _core
from sweephand.source.by_score import STEPS

FAR = 10**6  # a sweep


@given(timelines_by_score(), st.sampled_from([0, 1, 2, FAR]))
def test_a_sweep_by_score_is_that_of_the_model(
    timeline: tuple[ModelCorpus, ModelSettings], sweep: int
) -> None:
    corpus, settings = timeline
    start = sweep * corpus.num_samples
    order = core_timeline(corpus, settings).sequences(start, start + corpus.num_samples)
    assert order.tolist() == model.sweep_order(corpus, settings, sweep)
    assert sorted(order.tolist()) == list(range(corpus.num_sequences))


@given(st.data())
def test_places_in_an_order_by_score_are_found(data: st.DataObject) -> None:
    corpus, settings = data.draw(timelines_by_score())
    core = core_timeline(corpus, settings)
    sequence = data.draw(st.integers(0, corpus.num_sequences - 1))
    sweep = data.draw(st.sampled_from([0, 1, FAR]))
    time = core.find(sequence, sweep)
    assert time == model.find(corpus, settings, sequence, sweep)
    start = data.draw(times(corpus))
    stop = start + data.draw(st.integers(0, 2 * corpus.num_samples))
    expected = itertools.takewhile(
        lambda entry: entry.time < stop, model.timeline(corpus, settings, start)
    )
    assert core.sequences(start, stop).tolist() == [entry.sequence for entry in expected]


@given(timelines_by_score())
def test_without_scores_that_differ_the_order_is_the_shuffled_one(
    timeline: tuple[ModelCorpus, ModelSettings],
) -> None:
    corpus, settings = timeline
    shuffled = replace(settings, scores=None)
    expected = model.sweep_order(corpus, shuffled, 1)
    equal = ModelScores((3.0,) * corpus.num_sequences)
    differing = tuple(float(n) for n in range(corpus.num_sequences))
    for scores in (
        equal,
        ModelScores(differing, noises=("0", "1")),
        ModelScores(differing, until_sweep=1),
    ):
        core = core_timeline(corpus, replace(settings, scores=scores))
        order = core.sequences(corpus.num_samples, 2 * corpus.num_samples)
        assert order.tolist() == expected


@given(timelines_by_score())
def test_without_noise_every_block_ascends(
    timeline: tuple[ModelCorpus, ModelSettings],
) -> None:
    corpus, settings = timeline
    scores = replace(settings.scores or ModelScores(()), noises=("0",), knots=(), boundaries=())
    settings = replace(settings, scores=replace(scores, until_sweep=None, descending=False))
    order = core_timeline(corpus, settings).sequences(0, corpus.num_samples).tolist()
    sizes = [len(base) for base in model.base_lists(corpus, settings, 0)]
    ends = np.cumsum(sizes)
    for block in np.split(np.array(order), ends[:-1]):
        found = [scores.scores[sequence] for sequence in block]
        assert found == sorted(found)


def test_more_noise_leaves_less_of_an_order() -> None:
    corpus = ModelCorpus.of([[1] * 5000])
    scores = tuple(float(n) for n in range(5000))
    correlations = []
    for noise in ("0", "0.1", "0.3", "0.5", "0.8", "1"):
        settings = ModelSettings(num_lanes=1, scores=ModelScores(scores, noises=(noise,)))
        order = core_timeline(corpus, settings).sequences(0, 5000)
        correlations.append(np.corrcoef(order, np.arange(5000))[0, 1])
    assert correlations[0] == pytest.approx(1)
    assert sorted(correlations, reverse=True) == correlations
    assert abs(correlations[-1]) < 0.05


@given(st.data())
def test_weights_of_steps_are_those_of_the_model(data: st.DataObject) -> None:
    levels = data.draw(st.integers(1, 5))
    found = data.draw(knots(levels))
    order = sh.ByScore(
        "length",
        boundaries=range(1, levels),
        weights=[(Fraction(f), [Fraction(v) for v in values]) for f, values in found],
    )
    assert order.odds.shape == (STEPS, levels)
    assert order.odds.tolist() == model.weights_of_steps(found)


def test_levels_come_as_likely_as_their_weights_say() -> None:
    """Of two levels as large as each other, at the begin, and as the one runs dry."""
    count = 20_000
    corpus = ModelCorpus.of([[1] * count])
    scores = tuple(float(n % 2) for n in range(count))
    weights = (("0", ("3", "1")),)
    settings = ModelSettings(
        num_lanes=1, scores=ModelScores(scores, boundaries=(0.0,), knots=weights)
    )
    level = core_timeline(corpus, settings).sequences(0, count) % 2
    assert level[: count // 20].mean() == pytest.approx(1 / 4, abs=0.05)
    # Of level 0 is left (of level 1 is left)^3.
    left_0, left_1 = (np.cumsum((level == n)[::-1])[count // 2] / (count / 2) for n in (0, 1))
    assert left_0 == pytest.approx(left_1**3, abs=0.03)


@pytest.mark.parametrize("count", [4095, 4096, 2**20 + 77])
def test_many_sequences_are_sorted_as_few_are(count: int) -> None:
    """By counting, and beyond the table of a permutation."""
    corpus = ModelCorpus((tuple([1] * count),))
    ranks = (np.arange(count, dtype=np.uint64) * 7919 % count // 3).astype(np.uint32)
    settings = _core.order.OrderSettings(5, 1, 0, 0, True)
    core = core_corpus(corpus)
    settings.scores = _core.order.ScoreOrder(core, ranks, [2**14], [], 2**63, True)
    found = _core.order.SweepTimeline(core, settings).sequences(count, 2 * count)
    key = model.derive_key(model.ORDER_VERSION, 5, 2, 1, 0)
    shuffled = model.Permutation(count, key).take(0, count)
    keys = (3 * ranks[shuffled].astype(np.int64) + np.arange(count)) // 4
    assert np.array_equal(found, shuffled[np.argsort(keys, kind="stable")])


@pytest.mark.parametrize(
    ("ranks", "noises", "odds", "reason"),
    [
        ([0, 1], [0], [], "one rank for each sequence"),
        ([0, 1, 3], [0], [], "below 3"),
        ([0, 1, 2], [], [], "noises"),
        ([0, 1, 2], [2**16 + 1], [], "noises"),
        ([0, 1, 2], [0], [1], "odds"),
        ([0, 1, 2], [0], [1] * 2 * STEPS, "below 2"),
    ],
)
def test_ranks_and_rules_that_contradict_are_refused(
    ranks: list[int], noises: list[int], odds: list[int], reason: str
) -> None:
    corpus = core_corpus(ModelCorpus.of([[1, 1, 1]]))
    with pytest.raises(ValueError, match=reason):
        _core.order.ScoreOrder(
            corpus, np.array(ranks, np.uint32), noises, np.array(odds, np.uint32), 5, True
        )
