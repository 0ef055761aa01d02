"""Who carries out calls follows from how long they take, and how they hold the lock."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from tests.maps import functions

import sweephand as sh
from sweephand.maps.workers import CallTimes, MapWorkers, watch

Q, S = 1e-5, 1e-3  # seconds of a call


@pytest.mark.parametrize(
    ("workers", "kind", "limit", "call", "holds", "calls", "found", "way"),
    [
        (0, None, None, S, True, 9000, True, "caller"),
        (2, "processes", None, Q, False, 1, True, "processes"),
        (2, "threads", None, S, False, 9000, True, "threads"),
        (2, "threads", None, Q, False, 9000, True, "caller"),
        (2, None, None, S, False, 9000, True, "threads"),
        (2, None, None, S, True, 9000, True, "processes"),
        (2, None, None, S, True, 9000, False, "caller"),
        (2, None, None, S, True, 900, True, "caller"),
        (2, None, None, Q, True, 200_000, True, "processes"),
        (2, None, None, Q, False, 200_000, True, "caller"),
        (2, None, 9.0, Q, True, 9000, True, "threads"),
        (1, None, None, Q, False, 9000, True, "threads"),
    ],
)
def test_who_maps_follows_from_what_calls_take_and_whether_they_hold_the_lock(
    workers: int,
    kind: Any,
    limit: float | None,
    call: float,
    holds: bool,
    calls: int,
    found: bool,
    way: str,
) -> None:
    pace = CallTimes(calls, calls * call, 1.0, 1.0 if holds else 0.0, found)
    assert pace.way(MapWorkers(workers, kind, limit), range(100_000)) == way


def test_a_map_that_holds_the_lock_goes_on_in_processes_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def sees_it_held(pace: CallTimes) -> Iterator[None]:
        yield
        pace.watched = pace.locked = 1.0

    monkeypatch.setattr("sweephand.maps.workers.watch", sees_it_held)
    monkeypatch.setattr("sweephand.maps.workers._WORTH", 1e-6)
    corpus = sh.ArrayDeserializer({"x": np.arange(1000)}).map(functions.negate)
    with sh.MinibatchSource(corpus, num_map_workers=2, max_sweeps=1) as source:
        assert source.stats()["mapped_by_caller"] == 0  # from the start
        found = [n for minibatch in source.minibatches(100) for n in minibatch["x"].values]
        stats = source.stats()
    with sh.MinibatchSource(corpus, num_map_workers=0, max_sweeps=1) as source:
        assert found == [n for one in source.minibatches(1000) for n in one["x"].values]
    assert stats["map_locked"] == 1.0
    assert 0 < stats["mapped_by_caller"] < 200
    assert stats["mapped_by_processes"] + stats["mapped_by_caller"] == 1000


def test_what_holds_the_lock_is_told_from_what_does_not() -> None:
    pace, free = CallTimes(), CallTimes()
    with watch(pace):
        sum(range(3_000_000))
    with watch(free):
        time.sleep(0.05)
    assert pace.locked / pace.watched > free.locked / free.watched
    assert sys.getswitchinterval() < 0.1
