"""The caches of several nodes are one: what one node has the others need not fetch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.read.cached_store import indexed_tokens, patient
from tests.read.cluster_nodes import ENTRY_BYTES, NUM_CHUNKS, Nodes, make_job, run, wanted
from tests.read.http_store import HttpStore
from tests.read.node_cache import CHUNK_BYTES

from sweephand.files.cluster import members
from sweephand.files.cluster.members import Member, Owners

__all__ = ["indexed_tokens", "patient"]  # fixtures


# -- who is to hold what --

ROOMS = st.lists(st.integers(1, 1000), min_size=1, max_size=6)


def members_of(rooms: Sequence[int]) -> list[Member]:
    return [Member("", 0, room, f"node {number}") for number, room in enumerate(rooms)]


@given(ROOMS, st.lists(st.integers(0, 50), max_size=80), st.randoms())
def test_each_chunk_has_an_owner_in_proportion_to_rooms_whatever_the_order(
    rooms: list[int], sizes: list[int], random: Any
) -> None:
    nodes = members_of(rooms)
    chunks = np.array(sizes, np.uint64)
    owners = [Owners(nodes, chunks, 7).of(b"", chunk) for chunk in range(len(sizes))]
    random.shuffle(nodes)
    again = Owners(nodes, chunks, 7)
    assert [again.of(b"", chunk) for chunk in range(len(sizes))] == owners
    for member in nodes:
        part = sum(size for size, owner in zip(sizes, owners, strict=True) if owner == member)
        most = -(-sum(sizes) * member.max_bytes // sum(rooms))
        assert part <= most + max(sizes, default=0)


@given(ROOMS, st.integers(0, 2**64 - 1))
def test_a_range_of_no_known_chunk_has_an_owner_too(rooms: list[int], number: int) -> None:
    key = number.to_bytes(16, "little")
    owners = Owners(members_of(rooms), np.ones(4, np.uint64), 7)
    assert owners.of(key, 2**64 - 1) in members_of(rooms)


def test_a_member_that_leaves_moves_little_but_its_part() -> None:
    nodes, chunks = members_of([10] * 8), np.full(8000, 64, np.uint64)
    before = Owners(nodes, chunks, 7)
    after = Owners(nodes[:-1], chunks, 7)
    owned = [(before.of(b"", chunk), after.of(b"", chunk)) for chunk in range(8000)]
    moved = sum(old != new for old, new in owned)
    assert 1000 <= moved <= 1300  # an eighth, and what evens the parts


def test_many_members_and_many_chunks_are_even_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "_MOST_UNITS", 20_000)
    nodes, chunks = members_of([10] * 100), np.ones(50_000, np.uint64)
    owners = Owners(nodes, chunks, 7)
    owned = np.array([int(owners.owned_by(index).sum()) for index in range(100)])
    assert owned.sum() == 50_000
    assert np.abs(owned - 500).sum() <= 0.01 * 50_000  # units of three chunks
    first = np.flatnonzero(owners.owned_by(30))[:20].tolist()
    assert {owners.of(b"", chunk) for chunk in first} == {owners.members[30]}
    after = Owners(nodes[:-1], chunks, 7)
    moved = sum(owners.of(b"", chunk) != after.of(b"", chunk) for chunk in range(0, 50_000, 9))
    assert moved * 9 <= 0.1 * 50_000


# -- traffic of the store --


@pytest.mark.parametrize(
    ("rooms", "per_sweep"),
    [
        ([30, 30], [60, 0, 0]),
        ([20, 10], [60, 30, 30]),
        ([12, 12, 12], [60, 24, 24]),
        ([8, 15, 22, 15], [60, 0, 0]),
        ([60, 60], [60, 0, 0]),
    ],
)
def test_the_store_is_asked_for_what_the_disks_together_do_not_hold(
    rooms: list[int], per_sweep: list[int], web: HttpStore, tmp_path: Path
) -> None:
    contents, stats, found = Nodes(web, tmp_path, rooms).read()
    assert contents == wanted(web, len(rooms))
    assert sum(found) <= 1.05 * sum(per_sweep)
    assert np.abs(np.subtract(found, per_sweep)).max() <= 3
    assert sum(one["cache_misses"] for one in stats) == sum(found)
    assert not any(one["cache_peer_failures"] or one["cache_damaged"] for one in stats)
    for node, room in enumerate(rooms):
        kept = sum(path.stat().st_size for path in entries(tmp_path, node))
        assert kept <= room * ENTRY_BYTES


def entries(tmp_path: Path, node: int) -> list[Path]:
    return list((tmp_path / f"node{node}" / "entries").iterdir())


@pytest.mark.parametrize(
    ("num_nodes", "part"),
    [
        (2, 1.0),
        *(
            pytest.param(nodes, part, marks=pytest.mark.exhaustive)
            for nodes, part in ((4, 1.0), (4, 0.5), (3, 0.75), (6, 0.5))
        ),
    ],
)
def test_processes_ask_the_store_no_more_than_the_arithmetic(
    num_nodes: int, part: float, web: HttpStore, tmp_path: Path
) -> None:
    room = int(part * NUM_CHUNKS / num_nodes + 0.999)
    found = run(make_job(web.url, tmp_path, num_nodes, room * ENTRY_BYTES))
    assert [one["code"] for one in found] == [0] * num_nodes
    assert [one["content"] for one in found] == wanted(web, num_nodes)
    assert not any(one["warnings"] or one["cache_peer_failures"] for one in found)
    most = NUM_CHUNKS + 2 * max(0, NUM_CHUNKS - num_nodes * room)
    assert web.bytes_of("tokens") <= 1.05 * most * CHUNK_BYTES
