"""What is wrong with a map is told with the map and the sequence, and counts as damage."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from tests.maps import functions
from tests.maps.test_values import X, all_of, corpus

import sweephand as sh

BAD = [f"array__{n}" for n, x in enumerate(X) if 47 in x]


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("workers", [0, 3])
def test_a_sequence_that_it_raises_at_is_named(workers: int, batched: bool) -> None:
    def fail(sequences: Any) -> Any:
        for one in sequences["x"] if batched else [sequences["x"]]:
            functions.fails_at_47({"x": one})
        return sequences

    mapped = corpus().map(fail, batched=batched, name="strict")
    with (
        sh.MinibatchSource(mapped, num_map_workers=workers) as source,
        pytest.raises(sh.DataError, match="map 'strict' raised RuntimeError: 47") as raised,
    ):
        for _ in source.minibatches(50):
            pass
    assert raised.value.sequence in BAD
    assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.mark.parametrize("budget", [0, 2])
@pytest.mark.parametrize("size", ["same", "measured"])
def test_more_first_errors_than_the_budget_holds_end_the_look(size: Any, budget: int) -> None:
    called = []

    def fail(sequence: dict[str, Any]) -> dict[str, Any]:
        called.append(sequence)
        raise RuntimeError(len(called))

    with pytest.raises(sh.DataError, match=r"raised RuntimeError: 1$"):
        sh.MinibatchSource(corpus().map(fail, size=size), max_errors=budget, num_map_workers=0)
    assert len(called) == budget + 1


def cases() -> dict[str, tuple[Any, str]]:
    return {
        "no dict": (lambda s: s["x"], "returned ndarray, and not a dict of streams"),
        "nothing": (lambda s: None, "returned NoneType, and not a dict"),
        "another size": (lambda s: {"x": s["x"][:1]}, "returned 1 samples where the sequence"),
        "no stream": (lambda s: {}, "returned no stream"),
        "a list": (lambda s: [s], "one that makes several says size='measured'"),
        "objects": (lambda s: {"x": object()}, "x"),
    }


@pytest.mark.parametrize("case", cases())
def test_a_wrong_output_is_told(case: str) -> None:
    function, told = cases()[case]
    mapped = corpus().map(function, name="odd")
    with pytest.raises((sh.DataError, ValueError), match=told):
        all_of(mapped)


def test_a_later_output_of_another_kind_is_told() -> None:
    def odd(sequence: dict[str, Any]) -> dict[str, Any]:
        x = sequence["x"]
        return {"x": x if 47 not in x else x.astype(float) + 0.5}

    with pytest.raises(sh.DataError, match="map 'odd'") as raised:
        all_of(corpus().map(odd))
    assert raised.value.sequence in BAD
    assert raised.value.stream == "x"


def test_arguments_are_checked() -> None:
    for arguments, told in [
        ({"version": -1}, "version must be"),
        ({"size": "other"}, "size must be 'same', 'measured' or a function"),
    ]:
        with pytest.raises(ValueError, match=told):
            corpus().map(functions.negate, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a lambda has no name"):
        corpus().map(lambda sequence: sequence)
    with pytest.raises(TypeError, match="must be callable"):
        corpus().map("negate")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="two maps or filters of the name 'negate'"):
        sh.MinibatchSource(corpus().map(functions.negate).map(functions.negate))
    with pytest.raises(ValueError, match="num_map_workers must be"):
        sh.MinibatchSource(corpus(), num_map_workers=-1)
    with pytest.raises(ValueError, match="map_executor must be"):
        sh.MinibatchSource(corpus(), map_executor="fibers")  # type: ignore[arg-type]


def test_a_damaged_sequence_is_not_mapped() -> None:
    class Chunks(sh.UserDeserializer):
        def stream_infos(self) -> sh.StreamDefs:
            return sh.StreamDefs(x=sh.StreamDef())

        def num_chunks(self) -> int:
            return 4

        def chunk_infos(self) -> list[tuple[int, int]]:
            return [(3, 6)] * 4

        def sequence_lengths(self, number: int) -> Any:
            return np.array([1, 2, 3])

        def get_chunk(self, number: int) -> dict[str, Any]:
            lengths = (1, 2, 2) if number == 2 else (1, 2, 3)
            return {"x": [np.ones(n) * number for n in lengths]}

    def found_in(corpus: sh.Deserializer) -> tuple[list[str], list[str]]:
        with sh.MinibatchSource(corpus, max_sweeps=1, max_errors=3) as source:
            names = [name for minibatch in source.minibatches(9) for name in minibatch.ids]
            return names, [str(error) for error in source.errors]

    names, errors = found_in(Chunks())
    assert 9 <= len(names) < 12
    assert errors
    assert found_in(Chunks().map(functions.negate)) == (names, errors)


def test_closing_waits_for_no_map_forever_and_names_it() -> None:
    let_go = threading.Event()

    def hang(sequence: dict[str, Any]) -> dict[str, Any]:
        if threading.current_thread().name.startswith("sweephand-map"):
            let_go.wait()
        return sequence

    def wait_for_it() -> None:
        with pytest.raises(RuntimeError, match="closed"):
            source.next_minibatch(1)

    options: Any = {"num_map_workers": 2, "map_executor": "threads"}
    source = sh.MinibatchSource(corpus().map(hang), **options)
    waiting = threading.Thread(target=wait_for_it)
    waiting.start()
    deadline = time.monotonic() + 60
    while not source.timeline.opened.workers.call_lock.calls:
        assert time.monotonic() < deadline
    assert not source.close_within(0.1)
    calls = source.timeline.opened.workers.call_lock.calls
    assert any("map 'hang', at sequence" in call for call in calls)
    let_go.set()
    assert source.close_within(30)
    waiting.join()
