"""What comes ahead of its use takes only room that nothing needs until then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sweephand.files.node_cache.ahead_plan import plan_ahead
from sweephand.files.node_cache.belady import BeladySet
from sweephand.files.node_cache.entries import HEAD_BYTES, key_of
from sweephand.files.node_cache.fetch_ahead import FetchAhead, LoadPace, Loads
from sweephand.files.node_cache.fetch_lock import FetchLock
from sweephand.files.node_cache.folder import CacheFolder
from sweephand.files.node_cache.loading import current
from sweephand.files.node_cache.marker import MARK

SAMPLES, BYTES, NUM_CHUNKS = 10, 100, 12
ENTRY_BYTES = BYTES + HEAD_BYTES


class Sweeps:
    """The future of chunks of one size, which come one by one in an order for each sweep."""

    corpus = timeline = 1

    def __init__(self, orders: Sequence[Sequence[int]]) -> None:
        self.chunk_samples = np.full(len(orders[0]), SAMPLES, np.uint64)
        self.sweep = SAMPLES * len(orders[0])
        self.order = [chunk for order in orders for chunk in order]

    def next(self, chunks: Any, time: int, readers: Any, *, skips_one: bool) -> Any:
        return np.array([self._next(int(one), time, skips_one) for one in chunks], np.uint64)

    def _next(self, chunk: int, time: int, skips_one: bool) -> int:
        begin = time // SAMPLES
        uses = [at for at, one in enumerate(self.order) if one == chunk and at >= begin]
        uses = uses[skips_one:]
        return max(time, uses[0] * SAMPLES) if uses else 2**64 - 1

    def asked_ahead(self, step: int) -> int:
        return 0


ORDERS = st.integers(2, 20).flatmap(
    lambda count: st.lists(st.permutations(range(count)), min_size=3, max_size=3)
)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), max_size=30),
    st.integers(0, 10),
    st.integers(1, 20),
)
def test_only_what_is_needed_later_leaves_and_no_more_than_must(
    items: list[tuple[int, int]], limit: int, size: int
) -> None:
    kept = BeladySet[int](40)
    for number, (item_size, item_time) in enumerate(items):
        kept.put(number % 7, item_size, item_time)
    before = {item: kept.time_of(item) for item in kept}
    found = kept.find_after(limit, size)
    later = [item for item, when in before.items() if (when or 0) > limit]
    free = 40 - kept.used
    if found is None:
        assert free + sum(map(kept.size_of, later)) < size
    else:
        assert set(found) <= set(later)
        assert free + sum(map(kept.size_of, found)) >= size
        assert not found or free + sum(map(kept.size_of, found[:-1])) < size
        rest = [before[item] or 0 for item in later if item not in found]
        assert all((before[item] or 0) >= max(rest, default=0) for item in found)
    assert {item: kept.time_of(item) for item in kept} == before
    kept.put(99, 1, 0)  # what it looked at is still in order
    assert len(set(kept)) == len(kept)


@given(ORDERS, st.integers(1, 20), st.data())
def test_all_that_is_kept_for_its_next_use_is_needed_before_the_limit(
    orders: list[list[int]], room: int, data: Any
) -> None:
    uses, count = Sweeps(orders), len(orders[0])
    place = data.draw(st.integers(count, 2 * count - 1))
    kept, held_at = BeladySet[int](room), set[int]()
    hits: set[int] = set()
    for at, chunk in enumerate(uses.order):
        if at == place:
            held_at = set(kept)
        if at >= 2 * count and chunk in kept:
            hits.add(chunk)
        kept.put(chunk, 1, uses._next(chunk, at * SAMPLES, True))
    held = np.isin(np.arange(count), sorted(held_at))
    every = np.ones(count, bool)
    plan = plan_ahead(uses, place * SAMPLES, [(1, 0)], every, held, room * SAMPLES)
    after = {chunk: uses._next(chunk, plan.end, False) for chunk in range(count)}
    assert all(after[chunk] <= plan.limit for chunk in hits)
    left = uses.order[place : 2 * count]
    assert plan.chunks.tolist() == [chunk for chunk in left if chunk not in held_at]
    assert (np.diff(plan.times.astype(np.int64)) > 0).all()


def test_as_much_comes_at_a_time_as_hinders_nobody() -> None:
    pace = LoadPace()
    pace.note_step(1.0)
    pace.note(0.6)
    assert pace.at_once == 1
    pace.note_step(0.9)
    for _ in range(10):
        pace.note(0.1)
    assert pace.at_once == 8
    for _ in range(3):
        pace.note(0.4)
    assert pace.at_once == 1


class Store:
    """An object of which each chunk is a range."""

    path, size, tag, tells_apart = "store://object", BYTES * NUM_CHUNKS, "tag", True

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.error: Exception | None = None
        self.changed: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def content(self, chunk: int) -> NDArray[np.uint8]:
        return np.full(BYTES, chunk, np.uint8)

    def request(self, offset: int, size: int, padding: int = 0) -> NDArray[np.uint8]:
        self.asked.append(offset // BYTES)
        assert self.gate.wait(20)
        if self.error is not None:
            raise self.error
        return self.content(offset // BYTES)

    def look(self) -> None:
        if self.changed is not None:
            raise self.changed

    def load(self, number: int) -> None:
        loading = current()
        assert loading is not None
        loading.fetch(self, number * BYTES, BYTES, 0)
        loading.check_unchanged(self)


class Node:
    """A node's folder of some chunks, and what it fetches ahead."""

    def __init__(self, path: Path, room: int, has: Sequence[int]) -> None:
        self.store, self.counts = Store(), dict[str, int]()
        self.uses = Sweeps([list(range(NUM_CHUNKS)), list(reversed(range(NUM_CHUNKS)))])
        self.folder = CacheFolder(path, room * ENTRY_BYTES, self.uses)
        for chunk in has:
            lock = FetchLock(path / MARK, self.key(chunk))
            assert self.folder.try_to_take(lock)
            self.folder.store(chunk, self.store.content(chunk), lock)
            lock.close()
        loads = Loads()
        loads.add(self.store.load, np.arange(NUM_CHUNKS, dtype=np.uint64))
        self.ahead = FetchAhead(self.folder, lambda: self.uses, None, loads, self._count)

    def _count(self, name: str, number: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def key(self, chunk: int) -> bytes:
        return key_of(self.store, chunk * BYTES, BYTES)

    def held(self) -> list[int]:
        return [one for one in range(NUM_CHUNKS) if self.folder.entries.holds(self.key(one))]

    def stand(self, place: int) -> None:
        self.folder.stand(place * SAMPLES, 1, 0)
        self.ahead.stand(place * SAMPLES)

    def wait(self, is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not is_done():
            assert time.monotonic() < end
            threading.Event().wait(0.005)

    def close(self) -> None:
        self.store.gate.set()
        self.ahead.stop()
        self.folder.close()


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[[int, Sequence[int]], Node]]:
    """Return what makes nodes, which are closed in the end."""
    nodes: list[Node] = []

    def make(room: int, has: Sequence[int]) -> Node:
        nodes.append(Node(tmp_path / "cache", room, has))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


Make = Callable[[int, Sequence[int]], Node]


def test_room_that_nothing_needs_takes_what_is_due_first(make_node: Make) -> None:
    node = make_node(4, [0])
    node.stand(0)
    node.stand(1)
    node.wait(lambda: len(node.held()) == 4 and 0 not in node.held())  # its next use is late
    assert node.held() == [2, 3, 4, 5]
    assert node.counts["bytes_fetched_ahead"] == 4 * BYTES
    for chunk in node.held():
        found = node.folder.entries.read(node.key(chunk), BYTES, 0)
        assert found is not None
        assert found.tolist() == node.store.content(chunk).tolist()


def test_what_is_kept_for_the_next_sweep_stays(make_node: Make) -> None:
    # In the next sweep 11 comes first and 0 last.
    node = make_node(4, [11, 10, 9, 8])
    node.stand(0)
    node.stand(1)
    threading.Event().wait(0.4)
    assert node.held() == [8, 9, 10, 11]
    assert not node.store.asked


def test_a_store_that_fails_is_not_asked_again_at_once(make_node: Make) -> None:
    node = make_node(4, [0])
    node.store.error = OSError("no store")
    node.stand(0)
    node.stand(1)
    node.wait(lambda: bool(node.store.asked))
    threading.Event().wait(0.4)
    assert node.store.asked == [2]
    assert node.held() == [0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node.ahead, "_rest_until", 0.0)
        node.store.error = None
        node.stand(2)
        node.wait(lambda: node.held() == [3, 4, 5, 6])


def test_bytes_of_another_object_are_not_kept(make_node: Make) -> None:
    node = make_node(4, [0])
    node.store.changed = ValueError("another object")
    node.stand(0)
    node.stand(1)
    node.wait(lambda: node.counts.get("bytes_fetched_ahead", 0) > 0)
    threading.Event().wait(0.2)
    assert node.held() == [0]


@pytest.mark.parametrize("how", ["stop", "jump"])
def test_what_is_under_way_is_dropped(how: str, make_node: Make) -> None:
    node = make_node(4, [0])
    node.store.gate.clear()
    node.stand(0)
    node.stand(1)
    node.wait(lambda: node.store.asked == [2])
    begin = time.monotonic()
    if how == "stop":
        node.ahead.stop()
    else:
        node.stand(8)
    assert time.monotonic() - begin < 1
    node.store.gate.set()
    threading.Event().wait(0.4)
    assert node.held() == [0]
    assert node.store.asked == [2]


def test_nothing_begins_while_somebody_waits_for_the_store(make_node: Make) -> None:
    node = make_node(4, [0])
    with node.ahead.requesting():
        node.stand(0)
        node.stand(1)
        threading.Event().wait(0.4)
        assert not node.store.asked
    node.wait(lambda: len(node.held()) == 4)
