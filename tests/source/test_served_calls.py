"""Calls that ask as the last one did are answered by the core: as others are."""

import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh

SIZE = "minibatch_size_in_samples"


def make_source(**options: Any) -> sh.MinibatchSource:
    corpus = sh.ArrayDeserializer({"x": np.arange(100)})
    return sh.MinibatchSource(corpus, **options)


def asked_often(source: sh.MinibatchSource) -> sh.MinibatchSource:
    for _ in range(3):
        source.next_minibatch(4)
    return source


@pytest.mark.parametrize(
    ("args", "named", "number"),
    [
        ((4,), {}, 4),
        ((), {SIZE: 4}, 4),
        ((4, None, None, 1, 0), {}, 4),
        ((4,), {"input_map": None, "device": "cpu"}, 4),
        ((4,), {"num_data_partitions": 2, "partition_index": 1}, 2),
        ((4, None, None, 2), {}, 2),
        ((6,), {}, 6),
        ((np.int64(4),), {}, 4),
        ((4, {"y": "x"}), {}, 4),
    ],
)
def test_every_way_to_ask_gives_the_next_minibatch(
    args: tuple[Any, ...], named: dict[str, Any], number: int
) -> None:
    source, other = asked_often(make_source()), asked_often(make_source())
    for _ in range(3):
        minibatch = source.next_minibatch(*args, **named)
        key = "y" if {"y": "x"} in args else "x"
        size = int(args[0]) if args else 4
        whole = other.next_minibatch(size)["x"].values
        assert minibatch[key].values.tolist() == whole[len(whole) - number :].tolist() or (
            number == 2 and set(minibatch["x"].values) <= set(whole)
        )
        assert minibatch.num_samples == number
        source.next_minibatch(4)
        other.next_minibatch(4)


@pytest.mark.parametrize(
    "ask",
    [
        lambda source: source.next_minibatch(),
        lambda source: source.next_minibatch(4.0),
        lambda source: source.next_minibatch(True),
        lambda source: source.next_minibatch(0),
        lambda source: source.next_minibatch(4, None, None, 1, 0, 0),
        lambda source: source.next_minibatch(4, minibatch_size_in_samples=4),
        lambda source: source.next_minibatch(4, batch_size=4),
        lambda source: source.next_minibatch(4, num_data_partitions=2, partition_index=2),
        lambda source: source.next_minibatch(4, partition_index=-1),
    ],
)
def test_what_is_wrong_is_refused_as_in_a_first_call(
    ask: Callable[[sh.MinibatchSource], Any],
) -> None:
    errors = []
    for source in make_source(), asked_often(make_source()):
        before = source.current_position
        with pytest.raises((TypeError, ValueError)) as raised:
            ask(source)
        errors.append((raised.type, str(raised.value)))
        assert source.current_position == before
    assert errors[0] == errors[1]


def test_a_file_that_changes_is_an_error_with_its_place(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.ctf" for number in range(200)]
    for file in files:
        file.write_text("".join(f"|x {i}\n" for i in range(10, 14)))
    streams = sh.StreamDefs(x=sh.StreamDef(field="x", shape=1))
    source = sh.MinibatchSource(
        sh.CTFDeserializer(files, streams),
        randomization_window_in_chunks=2,
        num_lanes=1,
        num_threads=0,
    )
    asked_often(source)
    for file in files:
        file.write_text("|x 1\n")

    def ask(times: int) -> None:
        for _ in range(times):
            assert source.next_minibatch(4).num_samples == 4

    with pytest.raises(sh.StaleError, match=r"\.ctf.*changed"):
        ask(200)
    at = source.current_position
    with pytest.raises(sh.StaleError, match=r"\.ctf.*changed"):
        ask(1)
    assert source.current_position == at >= 12
    source.close()


def test_a_source_that_is_closed_says_so() -> None:
    source = asked_often(make_source())
    source.close()
    with pytest.raises(RuntimeError, match="make a new one"):
        source.next_minibatch(4)


def test_the_method_is_one_as_others_are() -> None:
    class Counting(sh.MinibatchSource):
        calls = 0

        def next_minibatch(self, *args: Any, **named: Any) -> sh.Minibatch:
            self.calls += 1
            return super().next_minibatch(*args, **named)

    source = Counting(sh.ArrayDeserializer({"x": np.arange(100)}))
    asked_often(source)
    assert source.calls == 3
    method = sh.MinibatchSource.next_minibatch
    assert len(method(source, 4)["x"].values) == 4
    assert list(inspect.signature(method).parameters)[:2] == ["self", SIZE]
    assert (method.__doc__ or "").startswith("Return the next minibatch")
    bound = pickle.loads(pickle.dumps(make_source().next_minibatch))
    assert len(bound(4)["x"].values) == 4
    with pytest.raises(TypeError):
        method(4)  # type: ignore[call-arg, arg-type]


def test_a_loop_goes_on_where_calls_in_it_stop() -> None:
    source, other = make_source(randomize=False), make_source(randomize=False)
    found = []
    for number, minibatch in enumerate(source.sweep(8)):
        found += minibatch["x"].values.tolist()
        if number % 2:
            found += source.next_minibatch(3)["x"].values.tolist()
    wanted = [value for one in other.sweep(1) for value in one["x"].values.tolist()]
    assert found == wanted
