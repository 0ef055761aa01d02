"""Skips and seeks that reach the end of the data, or beyond it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sweephand as sh

LAYOUTS = [
    sh.Ragged(),
    sh.Padded(),
    sh.Packed(8),
    sh.Packed(4, split_long="split"),
    sh.Bucketed([2, 6]),
    sh.TruncatedBPTT(2),
    sh.Frames(),
]


def corpus(count: int) -> sh.ArrayDeserializer:
    lengths = np.arange(count) % 6 + 1
    return sh.ArrayDeserializer({"x": [np.full(n, i) for i, n in enumerate(lengths)]})


def corpora() -> dict[str, Any]:
    return {"a": corpus(30), "b": corpus(42)}


def alone(**options: Any) -> sh.MinibatchSource:
    return sh.MinibatchSource(corpus(72), num_lanes=4, **options)


def of_some_samples(**options: Any) -> sh.MinibatchSource:
    return alone(max_samples=201, **options)


def of_two_sweeps(**options: Any) -> sh.MinibatchSource:
    return alone(max_sweeps=2, **options)


def mixed_of_some_samples(**options: Any) -> sh.MinibatchSource:
    mixture = sh.Mixture(corpora(), {"a": 1, "b": 2})
    return sh.MinibatchSource(mixture, num_lanes=4, max_samples=203, **options)


def mixed_until_one_ends(**options: Any) -> sh.MinibatchSource:
    mixture = sh.Mixture(corpora(), {"a": 1, "b": 1}, at_end="stop")
    return sh.MinibatchSource(mixture, num_lanes=4, **options)


def mixed_until_all_end(**options: Any) -> sh.MinibatchSource:
    mixture = sh.Mixture(corpora(), {"a": 1, "b": 1}, at_end="drop")
    return sh.MinibatchSource(mixture, num_lanes=4, **options)


Make = Callable[..., sh.MinibatchSource]
CASES = [
    (make, layout)
    for make in (
        of_some_samples,
        of_two_sweeps,
        mixed_of_some_samples,
        mixed_until_one_ends,
        mixed_until_all_end,
    )
    for layout in LAYOUTS
]


def steps(source: sh.MinibatchSource) -> list[tuple[int, list[str], int]]:
    return [(one.nominal_time, one.ids, one.sweeps_ended) for one in source.minibatches(20)]


@pytest.mark.parametrize(
    ("make", "layout"), CASES, ids=lambda one: getattr(one, "__name__", str(one))
)
def test_data_end_where_they_do_though_more_is_skipped(make: Make, layout: sh.Layout) -> None:
    with make(layout=layout) as plain:
        whole = steps(plain)
        end = plain.current_position
    begin = whole[len(whole) // 2][0]
    until = whole[: len(whole) // 2]
    for stop in (end, end + 1, end + 1000, 10**6, 2**62):
        events = [sh.events.Skip(at=begin, stop=stop)]
        with make(layout=layout, events=events) as source:
            found = steps(source)
            assert [one[:2] for one in found] == [one[:2] for one in until]
            assert sum(one[2] for one in found) == sum(one[2] for one in whole)
            assert source.current_position == end
            assert not source.next_minibatch(20)
            state = json.loads(json.dumps(source.get_checkpoint_state()))
            assert state["position"] == end
            # From anywhere in what is skipped, and after it.
            for place in (begin, end - 1, end, end + 1, stop, 2**62):
                source.current_position = place
                assert not source.next_minibatch(20)
                assert source.current_position == end
            assert [one.nominal_time for one in source.plan(20)] == []
            source.current_position = 0
            assert steps(source) == found
        with make(layout=layout, events=events) as source:
            source.restore_from_checkpoint(state)
            assert source.current_position == end
            assert not source.next_minibatch(20)
