"""Maps that change sizes, and filters: measured or told, then planned as what is stored."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.maps import functions
from tests.maps.test_values import X, all_of, corpus

import sweephand as sh
from sweephand.maps import kept_pass


def test_a_filter_is_asked_before_a_map_or_behind_it() -> None:
    doubled = corpus().map(functions.twice, size="measured")
    with pytest.raises(ValueError, match="keeps no sequence"):
        sh.MinibatchSource(doubled.filter(functions.is_odd))
    before = corpus().filter(functions.is_odd).map(functions.twice, size="measured")
    found = all_of(before, sweeps=1)
    assert len(found) == sum(len(x) % 2 for x in X)
    for name, one in found:
        x = X[int(name.rpartition("__")[2])]
        assert (np.frombuffer(one["x"], np.int64) == np.repeat(x, 2)).all()


@pytest.mark.parametrize("size", ["measured", lambda sizes, key: sizes["x"] * (sizes["x"] > 2)])
def test_the_first_results_may_all_be_empty(size: Any) -> None:
    def long_ones(sequence: dict[str, Any]) -> dict[str, Any]:
        return {"x": sequence["x"][: len(sequence["x"]) * (len(sequence["x"]) > 2)]}

    ascending = sh.ArrayDeserializer({"x": [np.arange(1 + n // 50) for n in range(200)]})
    found = all_of(ascending.map(long_ones, size=size), sweeps=1)
    assert len(found) == 100
    short = sh.ArrayDeserializer({"x": [np.arange(2)] * 70})
    with pytest.raises(ValueError, match="nothing is left: map 'long_ones' makes no samples"):
        sh.MinibatchSource(short.map(long_ones, size=size))


def test_one_sequence_may_become_several() -> None:
    mapped = corpus().map(functions.halves, size="measured")
    found = all_of(mapped, sweeps=1)
    expected = {
        f"array__{n}#{i}": part["x"].tobytes()
        for n, x in enumerate(X)
        for i, part in enumerate(functions.halves({"x": x}))
    }
    assert {name: one["x"] for name, one in found} == expected
    assert all_of(mapped, 7) == all_of(mapped, 999, num_map_workers=0)
    with sh.MinibatchSource(mapped) as source:
        time = source.find("array__5#1")
        source.current_position = time
        assert source.next_minibatch(1).ids == ["array__5#1"]
        for unknown in ("array__5#2", "array__5", "array__5#01", "other__5#1"):
            with pytest.raises(KeyError):
                source.find(unknown)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    rows = ({"x": list(range(n, n + 1 + n % 5)), "n": n} for n in range(100))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Counting:
    """Counts how often it is called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, sequence: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        return {"x": np.repeat(sequence["x"], 2)}


def test_what_was_measured_is_kept_beside_the_index(lines: Path) -> None:
    function = Counting()
    measured = sh.open(lines).map(function, name="twice", size="measured")
    first = all_of(measured, sweeps=1)
    function.calls = 0
    assert all_of(measured, sweeps=1) == first
    assert function.calls == 1 + 4 + 100  # the first ones, and each that is delivered
    function.calls = 0
    again = sh.open(lines).map(function, name="twice", version=2, size="measured")
    assert all_of(again, sweeps=1) == first
    assert function.calls == 201
    lines.write_text(lines.read_text() + '{"x": [1, 2], "n": 100}\n')
    function.calls = 0
    measured = sh.open(lines).map(function, name="twice", size="measured")
    assert len(all_of(measured, sweeps=1)) == 101
    assert function.calls == 1 + 2 * 101


def test_processes_that_measure_at_once_measure_once(
    lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    is_at_lock, held = threading.Event(), kept_pass.held

    def noted(path: Path) -> Any:
        is_at_lock.set()
        return held(path)

    counting = Counting()
    mapped = sh.open(lines).map(counting, name="twice", size="measured")
    expected = all_of(mapped, sweeps=1)
    (kept,) = (lines.parent / ".sweephand").glob("map.*-index")
    lock = kept.with_name(f"{kept.name}.lock")
    aside = kept.rename(lines.parent / "aside")
    counting.calls = 0
    with ThreadPoolExecutor(1) as other, lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        monkeypatch.setattr(kept_pass, "held", noted)
        waiting = other.submit(all_of, mapped, sweeps=1)
        assert is_at_lock.wait(60)
        aside.rename(kept)
        file.close()
        assert waiting.result() == expected
    assert counting.calls == 101
    assert not lock.exists()


def test_a_size_that_differs_later_is_an_error() -> None:
    calls: Iterator[int] = iter(range(10**6))

    def growing(sequence: dict[str, Any]) -> dict[str, Any]:
        return {"x": np.arange(1 + next(calls))}

    mapped = corpus().map(growing, size="measured")
    with (
        sh.MinibatchSource(mapped, num_map_workers=0) as source,
        pytest.raises(sh.DataError, match=r"map 'growing' returned .* were measured") as raised,
    ):
        source.next_minibatch(100)
    assert str(raised.value.sequence).startswith("array__")


WHOLE = [2, 2.0, np.int8(2), np.uint64(2), np.float32(2), np.array(2)]
WRONG = [2.5, None, True, np.True_, "2", [2], np.array([2]), float("inf"), float("nan"), -1]
WRONG += [2**32, 2**70, 1e300, Decimal(2), 2 + 0j]


def test_a_told_size_is_a_whole_number_or_refused_with_map_and_sequence() -> None:
    def first_two(sequence: dict[str, Any]) -> dict[str, Any]:
        return {"x": sequence["x"][:2]}

    def source(size: Any) -> sh.MinibatchSource:
        corpus = sh.ArrayDeserializer({"x": [np.arange(5)] * 4})
        return sh.MinibatchSource(corpus.map(first_two, name="cut", size=size), max_sweeps=1)

    for told in WHOLE:
        assert source(lambda sizes, key, told=told: told).next_minibatch(9).num_samples == 8
    for told in WRONG:
        with pytest.raises(ValueError, match=r"map 'cut' must return.*for 'array__0'"):
            source(lambda sizes, key, told=told: told)
    with pytest.raises(KeyError) as caught:
        source(lambda sizes, key: sizes["y"])
    assert caught.value.__notes__ == ["raised by size= of map 'cut', at sequence 'array__0'"]
