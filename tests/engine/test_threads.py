"""Sources under several threads of Python, and with threads of their own."""

import gc
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sanitized import unmeasured
from tests.sources import TIMEOUT, Rows

import sweephand as sh

ENGINES = [
    pytest.param({"num_threads": threads, "prefetch": prefetch}, id=f"{threads}-{prefetch}")
    for threads, prefetch in [(0, 0), (1, 1), (2, 3)]
]
POSITION = "current_position"


def rows(count: int) -> sh.ArrayDeserializer:
    return sh.ArrayDeserializer({"x": np.arange(count), "y": np.arange(count) * 0.5})


def in_threads(work: Callable[[int], Any], count: int = 4) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return [
            future.result(TIMEOUT) for future in [pool.submit(work, n) for n in range(count)]
        ]


@pytest.mark.filterwarnings("ignore:this loop over minibatches is empty")  # others took all
@pytest.mark.parametrize("engine", ENGINES)
def test_several_threads_get_every_minibatch_exactly_once(engine: dict[str, int]) -> None:
    with sh.MinibatchSource(rows(1000), max_sweeps=2, **engine) as source:
        order = source.sequence_ids(0, 2000)

        def take(_: int) -> list[sh.Minibatch]:
            return list(source.minibatches(7))

        taken = list(itertools.chain(*in_threads(take)))
        taken.sort(key=lambda minibatch: minibatch.nominal_time)
        assert [name for minibatch in taken for name in minibatch.ids] == order
        assert [minibatch.nominal_time for minibatch in taken] == list(range(0, 2000, 7))
        assert source.current_position == 2000
        for minibatch in taken:
            assert np.array_equal(minibatch["x"].values, minibatch["y"].values * 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_source_may_be_moved_and_asked_while_others_take_from_it(
    engine: dict[str, int],
) -> None:
    with sh.MinibatchSource(rows(300), **engine) as source:

        def take(n: int) -> None:
            for step in range(50):
                if n == 0:
                    source.current_position = 300 * step
                elif n == 1:
                    source.restore_from_checkpoint(source.get_checkpoint_state())
                    source.stats()
                else:
                    minibatch = source.next_minibatch(5 + step % 3)
                    wanted = source.sequence_ids(
                        minibatch.nominal_time, minibatch.nominal_time + minibatch.num_samples
                    )
                    assert minibatch.ids == wanted

        in_threads(take)


@given(st.data())
def test_minibatches_made_ahead_are_dropped_and_nothing_else_when_requests_change(
    data: st.DataObject,
) -> None:
    """At the end of data too: whoever changes the request or the place there goes on."""
    end = data.draw(st.integers(1, 30))
    engine = {"num_threads": data.draw(st.sampled_from([1, 2])), "prefetch": 3}
    with sh.MinibatchSource(rows(10), max_samples=end, randomize=False, **engine) as source:
        time = 0
        for _ in range(12):
            action = data.draw(st.sampled_from(["take", "take", "take", "seek", "state"]))
            if action == "seek":
                place = data.draw(st.integers(0, 35))
                source.current_position = place
                time = min(place, end)
            elif action == "state":
                source.restore_from_checkpoint(source.get_checkpoint_state())
            else:
                size = data.draw(st.integers(1, 4))
                workers = data.draw(st.integers(1, 2))
                minibatch = source.next_minibatch(size, num_data_partitions=workers)
                wanted = [t % 10 for t in range(time, max(time, min(time + size, end)))]
                assert bool(minibatch) == bool(wanted)
                if wanted:
                    assert minibatch["x"].values.tolist() == wanted[::workers]
                time += len(wanted)
            assert source.current_position == time


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_leaves_the_place_and_the_next_call_tries_again(
    engine: dict[str, int],
) -> None:
    class Failing(Rows):
        broken = True

        def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
            if chunk_id == 3 and self.broken:
                raise OSError("the disk is on fire")
            return super().get_chunk(chunk_id)

    deserializer = Failing()
    with sh.MinibatchSource(deserializer, randomize=False, max_sweeps=1, **engine) as source:
        for time in range(0, 12, 2):
            assert source.next_minibatch(2).nominal_time == time
        for size in (2, 2, 3, 2):
            with pytest.raises(OSError, match="the disk is on fire") as caught:
                source.next_minibatch(size)
            assert caught.value.__notes__ == ["raised by Failing.get_chunk(3)"]
            assert source.current_position == 12
        state = source.get_checkpoint_state()
        deserializer.broken = False
        rest = [minibatch["x"].values.tolist() for minibatch in source.minibatches(10)]
        assert rest == [list(range(12, 22)), list(range(22, 32))]
        source.restore_from_checkpoint(state)
        assert source.next_minibatch(1)["x"].values.tolist() == [12]


def test_a_state_can_be_taken_while_a_thread_drops_its_error() -> None:
    go_on = threading.Event()

    class Failing(Rows):
        def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
            if chunk_id > 1:
                assert go_on.wait(TIMEOUT)
            if chunk_id > 0:
                raise OSError("the disk is on fire")
            return super().get_chunk(chunk_id)

    with sh.MinibatchSource(Failing(), randomize=False, num_threads=2, prefetch=3) as source:
        source.next_minibatch(4)
        for _ in range(50):
            go_on.clear()
            with pytest.raises(OSError, match="the disk is on fire"):
                source.next_minibatch(4)
            go_on.set()
            for _ in range(1000):
                assert source.get_checkpoint_state()["position"] == 4


def test_a_size_callback_that_raises_while_planning_is_an_error_of_that_call() -> None:
    class Unsized(Rows):
        calls = 0

        def chunk_infos(self) -> object:
            return [(4, 8)] * 8

        def sequence_lengths(self, chunk_id: int) -> object:
            self.calls += 1
            if self.calls > 3:
                raise RuntimeError("no lengths today")
            return [2] * 4

        def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
            return {"x": (np.arange(8), [0, 2, 4, 6, 8])}

    for threads in (0, 2):
        deserializer = Unsized()
        with sh.MinibatchSource(deserializer, randomize=False, num_threads=threads) as source:
            for time in range(0, 20, 4):
                assert source.next_minibatch(4).nominal_time == time
            for ask in (source.next_minibatch, lambda time: setattr(source, POSITION, time)):
                with pytest.raises(RuntimeError, match="no lengths today"):
                    ask(40)
                assert source.current_position == 20
            deserializer.calls = -1000
            assert source.next_minibatch(2).nominal_time == 20


def test_a_source_may_be_dropped_by_its_own_thread() -> None:
    """A garbage collection may run in any thread, also in one that makes a chunk."""

    class Collecting(Rows):
        def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
            chunk = super().get_chunk(chunk_id)
            if chunk_id in self.gates:
                gc.collect()
            return chunk

    deserializer = Collecting(closed=(2,))
    gone = threading.Event()
    source = sh.MinibatchSource(deserializer, randomize=False, num_threads=1, prefetch=3)
    cycle: list[Any] = [source]
    cycle.append(cycle)
    weakref.finalize(source, gone.set)
    source.next_minibatch(4)
    assert deserializer.entered.wait(TIMEOUT)
    gc.disable()
    try:
        del source, cycle
        deserializer.gates[2].set()
        assert gone.wait(TIMEOUT)
    finally:
        gc.enable()


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_that_are_held_stay_as_they_were_whatever_comes_later(
    engine: dict[str, int],
) -> None:
    """Also beyond the source's end."""
    held, copies = [], []
    with sh.MinibatchSource(rows(500), max_sweeps=6, **engine) as source:
        for number, minibatch in enumerate(source.minibatches(32)):
            if number % 3 == 0:
                held.append(minibatch["x"].values)
                copies.append(held[-1].copy())
    del minibatch, source
    gc.collect()
    assert len(held) > 20
    assert all(np.array_equal(one, copy) for one, copy in zip(held, copies, strict=True))


def serves_ahead_after(source: sh.MinibatchSource, steps: int, seconds: float) -> bool:
    """Return True if threads, not the caller's own, serve a loop after so many steps."""
    for _ in range(steps):
        if seconds:
            time.sleep(seconds)
        source.next_minibatch(256)
    return bool(source.stats()["serves_ahead"])


def test_a_source_settles_on_who_serves_a_loop_within_ten_minibatches() -> None:
    data = {f"x{stream}": np.zeros((10_000, 64)) for stream in range(4)}
    with sh.MinibatchSource(data) as source:
        assert source.stats()["serves_ahead"]
        for change in range(3):
            assert serves_ahead_after(source, 3 if change else 20, 5e-3)
            # Once in many, as others take the processors in between.
            assert any(not serves_ahead_after(source, 10, 0) for _ in range(100))


def hold_the_lock(sequence: dict[str, Any]) -> dict[str, Any]:
    return {**sequence, "x": sequence["x"] + sum(range(100)) % 2}


def rest(sequence: dict[str, Any]) -> dict[str, Any]:
    time.sleep(1e-4)
    return sequence


@unmeasured
@pytest.mark.parametrize("num_map_workers", [0, 2])
def test_maps_are_called_by_threads_where_those_do_not_take_turns(num_map_workers: int) -> None:
    for function, is_helped in (hold_the_lock, False), (rest, True):
        corpus = sh.ArrayDeserializer({"x": np.arange(10_000)}).map(function, size="same")
        with sh.MinibatchSource(corpus, num_map_workers=num_map_workers) as source:
            # Once in several trials, as others take the processors in between.
            assert any(serves_ahead_after(source, 60, 0) == is_helped for _ in range(20))


@pytest.mark.parametrize("num_threads", [0, 1])
def test_threads_that_are_asked_for_serve_every_loop(num_threads: int) -> None:
    with sh.MinibatchSource(rows(10_000), num_threads=num_threads) as source:
        for seconds in [0.0] * 100 + [5e-3] * 5:
            assert source.stats()["serves_ahead"] == (num_threads > 0)
            source.next_minibatch(32)
            time.sleep(seconds)
