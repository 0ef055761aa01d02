"""What is slow is begun early, so that the order costs no time."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.maps.history import MapHistory, guess_seconds
from sweephand.maps.quicker import Quicker
from sweephand.maps.workers import MapWorkers, cut


def rest(sequence: dict[str, Any]) -> dict[str, Any]:
    """Take 20 times as long for one of 50."""
    time.sleep(0.004 if int(sequence["x"][0]) % 50 == 0 else 0.0002)
    return sequence


def test_what_was_slow_is_expected_to_be() -> None:
    history = MapHistory(5)
    numbers, num_bytes = np.arange(3, dtype=np.uint64), np.array([1.0, 3.0, 2.0])
    assert (history.expected(numbers, lambda: num_bytes) == guess_seconds(num_bytes)).all()
    history.add(numbers[:2], lambda: num_bytes[:2], np.array([7.0, 1.0]))
    assert history.expected(numbers, lambda: num_bytes).tolist() == [7, 1, 2 * 8 / 4]


def test_a_slow_sequence_is_a_task_of_its_own() -> None:
    assert (20, 21) in cut([1.0] * 20 + [20.0] + [1.0] * 20, 8)


def test_the_second_sweep_knows_what_is_slow() -> None:
    corpus = sh.ArrayDeserializer({"x": np.arange(100)}).map(rest)
    with sh.MinibatchSource(corpus, num_map_workers=4, max_sweeps=1) as source:
        for _ in source.minibatches(50):
            pass
        reader: Any = source.timeline.corpus.readers[0]
        history = reader.origin.make.__self__._history
    expected = history.expected(np.arange(100, dtype=np.uint64), lambda: np.ones(100))
    is_slow = np.arange(100) % 50 == 0
    assert expected[is_slow].min() >= 0.004
    assert 0.0002 <= np.median(expected[~is_slow]) < 0.004


@pytest.mark.parametrize(
    ("workers", "limit", "stays"), [(2, None, True), (1, None, False), (2, 9.0, False)]
)
def test_what_is_not_worth_its_way_is_mapped_where_it_is_wanted(
    workers: int, limit: float | None, stays: bool
) -> None:
    class Quick:
        def __len__(self) -> int:
            return 3

        def part(self, begin: int, end: int) -> Quick:
            return self

        def do(self, turn: object) -> threading.Thread:
            return threading.current_thread()

    team = MapWorkers(workers, limit=limit)
    try:
        (where,) = team.run(Quick(), np.full(3, 1e-6))  # type: ignore[arg-type]
    finally:
        team.close()
    assert (where is threading.current_thread()) == stays  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("threads_take", [0.5, 0.9, 2.0])
def test_quick_calls_go_where_the_clock_says_and_the_other_way_is_tried_rarely(
    threads_take: float,
) -> None:
    quicker, ways = Quicker(), []
    for _ in range(2000):
        ways.append(quicker.is_here())
        quicker.add(1.0 if ways[-1] else threads_take, is_here=ways[-1])
    is_best = threads_take > 0.85
    assert ways[10:].count(not is_best) == 6  # after 16, 32, ... 512 minibatches
    for _ in range(4000):  # threads become slow, or the GIL free
        ways.append(quicker.is_here())
        quicker.add(1.0 if ways[-1] else 2.0 if threads_take < 1 else 0.5, is_here=ways[-1])
    assert ways[-1] == (threads_take < 1)
