"""The position of a source: opaque, comparable, JSON, and set to go back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests import extent

import sweephand as sh

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
LAYOUTS = [
    sh.Ragged(),
    sh.Padded(),
    sh.Packed(row_length=12),
    sh.Packed(row_length=8, split_long="split"),
    sh.Bucketed(boundaries=(4, 9)),
    sh.TruncatedBPTT(length=4),
]


def corpus(first: int = 0) -> sh.ArrayDeserializer:
    values = np.arange(first, first + sum(LENGTHS))
    return sh.ArrayDeserializer({"tokens": (values, np.cumsum([0, *LENGTHS]))})


def make_source(layout: sh.Layout, mixed: int) -> sh.MinibatchSource:
    data: Any = corpus()
    if mixed:
        data = sh.Mixture({"a": corpus(), "b": corpus(1000)}, weights={"a": 2, "b": 1})
    return sh.MinibatchSource(data, layout=layout, randomization_seed=3)


def read(source: sh.MinibatchSource, count: int) -> list[tuple[int, list[str], list[int]]]:
    minibatches = [source.next_minibatch(40) for _ in range(count)]
    return [(one.nominal_time, one.ids, one["tokens"].values.tolist()) for one in minibatches]


@pytest.mark.parametrize(
    ("layout", "mixed"), extent.sample([(one, mixed) for one in LAYOUTS for mixed in (0, 1)], 5)
)
def test_a_position_leads_back_in_every_layout_and_through_json(
    layout: sh.Layout, mixed: int
) -> None:
    with make_source(layout, mixed) as source:
        positions = [source.position]
        for _ in range(3):
            minibatch = source.next_minibatch(40)
            assert minibatch.position == positions[-1]
            assert minibatch.next_position == source.position
            positions.append(source.position)
        assert positions == sorted(positions)
        assert len(set(positions)) == len(positions)
        wanted = read(source, 2)
        for form in (positions[3], json.loads(json.dumps(positions[3]))):
            source.position = form
            assert source.position == positions[3]
            assert read(source, 2) == wanted
        with make_source(layout, mixed) as other:
            other.position = positions[3]
            assert read(other, 2) == wanted


def test_a_position_of_another_order_is_refused_and_changes_nothing() -> None:
    with make_source(sh.Ragged(), False) as source:
        source.next_minibatch(10)
        before = source.position
        with pytest.raises(ValueError, match="progress"):
            source.position = [3, [1, 2, 3]]
        assert source.position == before
        for wrong in (7, [1], "place"):
            with pytest.raises((TypeError, ValueError)):
                source.position = wrong  # type: ignore[assignment]
        assert source.position == before


def test_planned_minibatches_know_the_position_after_them() -> None:
    with make_source(sh.Packed(row_length=12), True) as source:
        planned = next(iter(source.plan(40)))
        source.next_minibatch(40)
        assert planned.next_position == source.position


def test_a_plan_is_immutable_and_an_event_makes_another() -> None:
    with make_source(sh.Ragged(), False) as source:
        plan = source.timeline
        names = plan.sequence_ids(0, 40, 1)
        source.events.ban([names[3]])
        assert source.timeline is not plan
        assert (len(plan.events), len(source.timeline.events)) == (0, 1)
        with source.events.trying(sh.events.Ban(ids=(names[4],), at=0)):
            assert len(source.timeline.events) == 2
            tried = source.next_minibatch(40)
            assert tried.banned_ids == [names[3], names[4]]
            source.position = (0, ())
        assert len(source.timeline.events) == 1
        assert source.next_minibatch(40).banned_ids == [names[3]]
