"""When sequences come first is what a reader of all minibatches would note."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.events.event_list import EventList
from sweephand.source.first_times import first_times

LAYOUTS = [sh.Ragged(), sh.Packed(16), sh.Packed(8, split_long="split"),
           sh.Packed(16, lanes="apart"), sh.Bucketed([4, 9]), sh.TruncatedBPTT(4)]  # fmt: skip
SIZE = 20


def part(rng: np.random.Generator, name: str) -> sh.ArrayDeserializer:
    lengths = rng.integers(1, 9, int(rng.integers(10, 40)))
    arrays = {"x": [np.zeros(length) for length in lengths]}
    return sh.ArrayDeserializer(arrays, name=name)


def corpus(rng: np.random.Generator, layout: sh.Layout) -> Any:
    if getattr(layout, "lanes", "") == "apart" or rng.integers(2):
        return part(rng, "a")
    names = {name: part(rng, name) for name in "ab"}
    return sh.Mixture(names, weights={"a": 3, "b": int(rng.integers(1, 4))})


def random_events(rng: np.random.Generator, names: list[str], end: int) -> list[Any]:
    bans = [
        sh.events.Ban(at=int(rng.integers(end)), ids=rng.choice(names, 5).tolist())
        for _ in range(rng.integers(0, 3))
    ]
    skips = [
        sh.events.Skip(at=int(begin), stop=int(begin + rng.integers(1, end // 2)))
        for begin in rng.integers(0, end, rng.integers(0, 3))
    ]
    return [*bans, *skips]


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
@pytest.mark.parametrize("seed", range(6))
def test_first_times_are_those_of_what_is_delivered(layout: sh.Layout, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = corpus(rng, layout)
    options: Any = {"layout": layout, "num_lanes": 4, "randomization_seed": seed}
    with sh.MinibatchSource(data, **options) as source:
        count = source.num_sequences_per_sweep
        names = source.timeline.corpus.ids.names(np.arange(count))
        end = int(rng.integers(50, 3 * source.num_samples_per_sweep))
    events = random_events(rng, names, end)
    size = SIZE if layout.depends_on_size else 1
    boundaries = [0]
    seen: dict[str, int] = {}  # the first minibatch that has it
    with sh.MinibatchSource(data, events=events, **options) as source:
        for minibatch in source.minibatches(size):
            if minibatch.nominal_time >= end:
                break
            boundaries.append(source.current_position)
            for name in minibatch.ids:
                seen.setdefault(name, len(boundaries) - 1)
    with sh.MinibatchSource(data, **options) as source:
        numbers = [source.timeline.corpus.ids.numbers(name) for name in names]
        plan = source.timeline.with_events(EventList(tuple(events)))
        found = first_times(plan, numbers, boundaries[-1], SIZE)
        for name, time in zip(names, found, strict=True):
            if name not in seen:
                assert time is None
                continue
            assert time is not None
            # Whoever has a checkpoint at the end of a minibatch knows on which side it lies.
            assert boundaries[seen[name] - 1] <= time < boundaries[seen[name]]
