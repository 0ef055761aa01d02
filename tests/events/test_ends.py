"""Skips and seeks that reach the end of the data, or beyond it."""

from __future__ import annotations

import json
from functools import partial
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


def mixed(at_end: Any, weights: Any) -> sh.Mixture:
    return sh.Mixture({"a": corpus(30), "b": corpus(42)}, weights, at_end=at_end)


ENDS: dict[str, tuple[sh.Deserializer, dict[str, int]]] = {
    "of some samples": (corpus(72), {"max_samples": 201}),
    "of two sweeps": (corpus(72), {"max_sweeps": 2}),
    "mixed, of some samples": (mixed("repeat", {"a": 1, "b": 2}), {"max_samples": 203}),
    "mixed, until one ends": (mixed("stop", {"a": 1, "b": 1}), {}),
    "mixed, until all end": (mixed("drop", {"a": 1, "b": 1}), {}),
}


def steps(source: sh.MinibatchSource) -> list[tuple[int, list[str], int]]:
    return [(one.nominal_time, one.ids, one.sweeps_ended) for one in source.minibatches(20)]


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
@pytest.mark.parametrize("end", ENDS)
def test_data_end_where_they_do_though_more_is_skipped(end: str, layout: sh.Layout) -> None:
    data, limits = ENDS[end]
    make = partial(sh.MinibatchSource, data, num_lanes=4, layout=layout, **limits)
    with make() as plain:
        whole = steps(plain)
        last = plain.current_position
    begin = whole[len(whole) // 2][0]
    until = whole[: len(whole) // 2]
    for stop in (last, last + 1, last + 1000, 10**6, 2**62):
        events = [sh.events.Skip(at=begin, stop=stop)]
        with make(events=events) as source:
            found = steps(source)
            assert [one[:2] for one in found] == [one[:2] for one in until]
            assert sum(one[2] for one in found) == sum(one[2] for one in whole)
            assert source.current_position == last
            assert not source.next_minibatch(20)
            state = json.loads(json.dumps(source.get_checkpoint_state()))
            assert state["position"] == last
            # From anywhere in what is skipped, and after it.
            for place in (begin, last - 1, last, last + 1, stop, 2**62):
                source.current_position = place
                assert not source.next_minibatch(20)
                assert source.current_position == last
            assert [one.nominal_time for one in source.plan(20)] == []
            source.current_position = 0
            assert steps(source) == found
        with make(events=events) as source:
            source.restore_from_checkpoint(state)
            assert source.current_position == last
            assert not source.next_minibatch(20)
