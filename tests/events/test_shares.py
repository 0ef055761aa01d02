"""Weights of a mixture that change, corpora that retire: those of docs/order.md."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.mixtures.test_order import (
    delivered,
    ids_of,
    random_mixture,
    random_weights,
    source_of,
)
from tests.model_events import ChangedMixture

import sweephand as sh


def changed(rng: np.random.Generator, span: int) -> tuple[ChangedMixture, list[Any]]:
    """A mixture whose weights change, and the events that say so."""
    mixture = random_mixture(rng)
    names = list(mixture.corpora)
    changes: list[Any] = []
    events: list[Any] = []
    for time in sorted(rng.integers(0, span, rng.integers(1, 4)).tolist()):
        if len(names) > 1 and rng.random() < 0.4:
            corpus = int(rng.integers(len(names)))
            trial = ChangedMixture(**vars(mixture), changes=[*changes, (time, corpus)])
            legs = ChangedMixture(**{**vars(trial), "at_end": "repeat"}).legs
            if not any(legs[-1].last):
                continue
            changes.append((time, corpus))
            events.append(sh.events.Retire(at=time, corpus=names[corpus]))
        else:
            weights = random_weights(rng, len(names))
            changes.append((time, weights))
            given = dict(zip(names, weights, strict=True))
            events.append(sh.events.Weights(at=time, weights=given))
    return ChangedMixture(**vars(mixture), changes=changes), events


@pytest.mark.parametrize("seed", range(60))
def test_shares_that_change_are_those_of_the_page(seed: int) -> None:
    rng = np.random.default_rng(300 + seed)
    mixture, events = changed(rng, 400)
    order = list(itertools.islice(mixture.order(), 400))
    if not order:
        return
    ended = len(order) < 400
    with source_of(mixture, events=events) as source:
        for begin in (0, *rng.integers(0, order[-1].time + 1, 3).tolist()):
            expected = [one for one in order if one.time >= begin]
            source.current_position = begin
            while expected:
                minibatch = source.next_minibatch(int(rng.integers(1, 60)))
                taken = expected[: minibatch.num_sequences]
                if not ended and len(taken) == len(expected):
                    break
                assert delivered(minibatch) == ids_of(mixture, taken)
                expected = expected[len(taken) :]


@pytest.mark.parametrize("seed", range(20))
def test_shares_may_change_while_a_source_runs(seed: int) -> None:
    rng = np.random.default_rng(400 + seed)
    mixture, events = changed(rng, 300)
    with source_of(mixture, events=events) as known, source_of(mixture) as told:
        late = list(events)
        for _ in range(12):
            size = int(rng.integers(1, 50))
            while late and late[0].at - told.current_position < size + 100:
                if late[0].at < told.current_position:
                    return
                told.events.append(late.pop(0))
            minibatch, other = known.next_minibatch(size), told.next_minibatch(size)
            assert minibatch.ids == other.ids
            assert known.current_position == told.current_position


@pytest.mark.parametrize("seed", range(12))
def test_workers_that_come_and_go_share_what_changes(seed: int) -> None:
    rng = np.random.default_rng(500 + seed)
    mixture, events = changed(rng, 400)
    lanes = mixture.settings.num_lanes if mixture.settings.randomize else 4
    order = list(itertools.islice(mixture.order(), 300))
    if not order or len(order) < 300:
        return
    with source_of(mixture, events=events) as source:
        place = 0
        while place < 250:
            size, workers = int(rng.integers(1, 60)), int(rng.integers(1, lanes + 1))
            state = source.get_checkpoint_state()
            shares = []
            for rank in range(workers):
                source.restore_from_checkpoint(state)
                shares.append(source.next_minibatch(size, None, None, workers, rank))
            count = sum(share.num_sequences for share in shares)
            found = sorted(one for share in shares for one in delivered(share))
            assert found == sorted(ids_of(mixture, order[place : place + count]))
            place += count


def corpus(name: int, count: int = 3000) -> sh.ArrayDeserializer:
    rng = np.random.default_rng(name)
    lengths = rng.integers(1, 30, count)
    return sh.ArrayDeserializer({"x": [np.full(n, i) for i, n in enumerate(lengths)]})


LAYOUTS = [
    sh.Ragged(),
    sh.Packed(2, split_long="split"),
    sh.Bucketed([8, 32]),
    sh.TruncatedBPTT(4),
]


@pytest.mark.parametrize("randomize", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_weights_change_nothing_before_their_time_in_any_layout(
    layout: sh.Layout, randomize: bool
) -> None:
    mixture = sh.Mixture({"a": corpus(1), "b": corpus(2)}, {"a": 1, "b": 1})
    options: Any = {"layout": layout, "randomize": randomize, "max_samples": 60_000}
    at = 9_000
    event = sh.events.Weights(at=at, weights={"a": 1, "b": 3})
    with (
        sh.MinibatchSource(mixture, **options) as plain,
        sh.MinibatchSource(mixture, **options, events=[event]) as source,
    ):
        both = itertools.zip_longest(source.minibatches(500), plain.minibatches(500))
        change = next((one.nominal_time for one, other in both if one.ids != other.ids), None)
        positions = source.corpus_positions(60_000)
    if change is not None:
        assert change + 500 >= at
        assert positions["b"] == pytest.approx(change / 2 + 0.75 * (60_000 - change), abs=600)
    assert change is not None or positions["b"] == pytest.approx(30_000, abs=50)


@pytest.mark.parametrize("randomize", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_all_of_a_mixture_comes_once_whatever_its_weights_become(
    layout: sh.Layout, randomize: bool
) -> None:
    corpora = {"a": corpus(1, 300), "b": corpus(2, 900), "c": corpus(3, 600)}
    weights: Any = [(0, {"a": 1, "b": 1, "c": 1}), (9_000, {"a": 1, "b": 1, "c": 9})]
    mixture = sh.Mixture(corpora, weights, at_end="drop")
    events = [
        sh.events.Weights(at=2_000, weights={"a": 1, "b": 3, "c": 1}),
        sh.events.Weights(at=7_000, weights={"a": 2, "b": 1, "c": 1}),
    ]
    options: Any = {"layout": layout, "randomize": randomize}
    with sh.MinibatchSource(mixture, events=events, **options) as source:
        found: dict[str, int] = {}
        for minibatch in source.minibatches(300):
            for name, values in zip(minibatch.ids, minibatch["x"].as_sequences(), strict=True):
                found[name] = found.get(name, 0) + len(values)
    assert len(found) == 1800
    assert sum(found.values()) == source.num_samples_per_sweep


@pytest.mark.parametrize("randomize", [True, False])
def test_rows_have_another_length_where_a_part_begins(randomize: bool) -> None:
    rng = np.random.default_rng(7)
    lengths = rng.integers(1, 9, 30_000)
    data = sh.ArrayDeserializer(
        {"x": (np.arange(lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]))}
    )
    options: Any = {"layout": sh.Packed(16), "randomize": randomize, "max_sweeps": 2}
    with sh.MinibatchSource(data, **options) as plain:
        before = [(one.nominal_time, one.ids) for one in plain.minibatches(1600)]
    event = sh.events.RowLength(at=40_000, row_length=64)
    with sh.MinibatchSource(data, **options, events=[event]) as source:
        found: dict[str, int] = {}
        states = []
        widths = []
        minibatches = []
        for minibatch in source.minibatches(1600):
            states.append(source.get_checkpoint_state())
            widths.append(minibatch["x"].asarray().shape[1])
            minibatches.append((minibatch.nominal_time, minibatch.ids))
            for name in minibatch.ids:
                found[name] = found.get(name, 0) + 1
        change = widths.index(64)
        assert widths == [16] * change + [64] * (len(widths) - change)
        assert minibatches[change][0] >= event.at
        assert minibatches[: change - 1] == before[: change - 1]
        assert set(found.values()) == {2}
        for name in minibatches[change + 3][1][:5]:
            sweep = minibatches[change + 3][0] // source.num_samples_per_sweep
            time = source.find(name, sweep)
            assert minibatches[change + 3][0] <= time < minibatches[change + 4][0]
        begin, end = minibatches[change][0], minibatches[change + 1][0]
        assert source.sequence_ids(begin, end) == minibatches[change][1]
    for number in (0, change - 1, change, change + 1):
        with sh.MinibatchSource(data, **options, events=[event]) as source:
            source.restore_from_checkpoint(states[number])
            assert source.next_minibatch(1600).ids == minibatches[number + 1][1]


def test_rows_may_have_another_length_from_the_beginning_on() -> None:
    data = sh.ArrayDeserializer({"x": [np.arange(n) for n in (3, 4, 2, 5)]})
    event = sh.events.RowLength(at=0, row_length=6)
    for corpus in (data, sh.Mixture({"a": data}, {"a": 1})):
        options: Any = {"events": [event, event], "max_samples": 40}
        with (
            sh.MinibatchSource(corpus, layout=sh.Packed(6), max_samples=40) as plain,
            sh.MinibatchSource(corpus, layout=sh.Packed(14), **options) as source,
        ):
            for one, other in zip(plain.minibatches(12), source.minibatches(12), strict=True):
                assert one.ids == other.ids
                assert one["x"].asarray().tolist() == other["x"].asarray().tolist()


@pytest.mark.parametrize("at_end", ["drop", "stop", "repeat"])
def test_rows_of_another_length_never_come_behind_the_end(at_end: Any) -> None:
    mixture = sh.Mixture(
        {"a": corpus(1, 9), "b": corpus(2, 9)}, {"a": 1, "b": 1}, at_end=at_end
    )
    events = [sh.events.RowLength(at=10_000, row_length=n) for n in (64, 65)]
    later = [
        sh.events.Weights(at=20_000, weights={"a": 1, "b": 3}),
        sh.events.RowLength(at=30_000, row_length=66),
    ]
    options: Any = {"layout": sh.Packed(40), "max_samples": 1000}
    with (
        sh.MinibatchSource(mixture, **options) as plain,
        sh.MinibatchSource(mixture, events=[*events, *later], **options) as source,
    ):
        for one, other in zip(plain.minibatches(80), source.minibatches(80), strict=True):
            assert one.ids == other.ids


def test_a_row_that_could_not_hold_a_sequence_is_refused() -> None:
    data = sh.ArrayDeserializer({"x": [np.arange(9), np.arange(3)]})
    with (
        sh.MinibatchSource(data, layout=sh.Packed(16)) as source,
        pytest.raises(ValueError, match="1 sequences have more than 8 samples, the longest 9"),
    ):
        source.events.row_length(8)


def test_nobody_s_share_is_refused() -> None:
    mixture = sh.Mixture({"a": corpus(1), "b": corpus(2)}, {"a": 1, "b": 0})
    with sh.MinibatchSource(mixture) as source:
        for wrong, why in (
            (lambda: source.events.retire("a"), "nobody would have a share"),
            (lambda: source.events.retire("c"), "no corpus 'c' to retire"),
            (lambda: source.events.weights({"a": 0, "b": 0}), "all weights"),
            (lambda: source.events.weights({"a": 1}), "none for 'b'"),
        ):
            with pytest.raises(ValueError, match=why):
                wrong()
        assert len(source.events) == 0
