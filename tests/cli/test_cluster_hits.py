"""What is predicted of a cluster's cache is what nodes do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.read.cached_store import indexed_tokens, patient
from tests.read.cluster_nodes import NUM_CHUNKS, Nodes
from tests.read.http_store import HttpStore
from tests.read.node_cache import CHUNK_BYTES

from sweephand.cli.cluster_hits import later_parts, reads_of_cluster, run_of_cluster
from sweephand.cli.cluster_links import Links, SweepTraffic, traffic_of_cluster

__all__ = ["indexed_tokens", "patient"]  # fixtures


@pytest.mark.parametrize(("num_nodes", "room"), [(2, 20), (3, 15), (4, 15)])
def test_a_simulation_predicts_where_reads_go(
    num_nodes: int, room: int, web: HttpStore, tmp_path: Path
) -> None:
    _, stats, fetched = Nodes(web, tmp_path, [room] * num_nodes).read()
    told = reads_of_cluster(num_nodes, NUM_CHUNKS, room, 3, seed=1)
    assert [one.store for one in told] == pytest.approx(fetched, rel=0.1, abs=2)
    found = [sum(one[f"cache_{name}"] for one in stats) for name in ("peer_hits", "hits")]
    # What a node fetched ahead it read later, or handed to another.
    ahead = sum(one["cache_bytes_fetched_ahead"] for one in stats) / CHUNK_BYTES
    reads = sum(found) + sum(fetched) - ahead
    peers = sum(one.peers for one in told) / 180
    assert peers - 0.1 <= found[0] / reads <= peers + ahead / reads + 0.1


def test_predicted_reads_are_the_arithmetic() -> None:
    for nodes, part in ((1, 0.5), (8, 0.25), (8, 1.0), (100, 0.75)):
        told = later_parts(nodes, part, seed=3)
        assert told["store"] == pytest.approx(1 - part, abs=0.02)
        assert told["own"] == pytest.approx(part / nodes, abs=0.04)


def traffic(
    store: float, node: float = 100.0, *, room: int = 48, ahead: bool = True
) -> list[SweepTraffic]:
    """Return the traffic of two nodes that read 96 chunks in 96 seconds, 8 lanes at a time."""
    reads = list(run_of_cluster(2, 96, room, 4, seed=2))
    if not ahead:
        reads = [one._replace(room_since=None) for one in reads]
    return traffic_of_cluster(reads, 2, Links(store, node, 1.0, 8, 3.0))[:3]


def test_links_carry_what_nodes_read_and_give() -> None:
    first, *later = traffic(100.0)
    given = first.received.sum() - 96  # what one node fetches of the other's part
    assert first.store == 96
    assert 0.3 * 96 < given < 0.7 * 96
    for one in (first, *later):
        assert one.received.sum() == one.store + one.sent.sum()
        assert one.waiting == 0.0
    assert [one.store for one in later] == [0, 0]
    assert [one.store for one in traffic(100.0, room=24)][1:] == pytest.approx([48, 48], abs=2)


def test_loops_wait_as_long_as_the_slowest_link_takes() -> None:
    first, *later = traffic(0.5)
    # Of 96 chunks at half the rate, but for those that come before the loop begins.
    assert first.waiting == pytest.approx(1 - 96 / (88 * 1.03 / 0.5), abs=0.02)
    assert [one.waiting for one in later] == [0.0, 0.0]
    # The second half of a sweep comes from the store: what is needed first was kept.
    half = traffic(0.5, room=24, ahead=False)[1:]
    assert [one.waiting for one in half] == pytest.approx([0.3, 0.3], abs=0.05)
    assert max(one.waiting for one in traffic(0.5, room=24)[1:]) < 0.12
    assert max(one.waiting for one in traffic(0.7, room=24)[1:]) < 0.05


@pytest.mark.parametrize(("nodes", "room"), [(1, 24), (2, 24), (4, 6), (8, 12)])
def test_what_comes_ahead_takes_no_room_of_what_is_kept(nodes: int, room: int) -> None:
    reads = list(run_of_cluster(nodes, 96, room, 4, seed=2))
    is_ahead = [
        one.room_since is not None and one.room_since < place for place, one in enumerate(reads)
    ]
    assert sum(is_ahead) > 80
    for place, one in enumerate(reads):
        if one.is_held:
            assert one.room_since is None
        else:
            assert one.room_since is not None
            assert one.sweep * 96 <= one.room_since <= place
    for owner in range(nodes):
        for place in range(len(reads)):
            waiting = [
                one.room_since
                for later, one in enumerate(reads)
                if one.owner == owner and later >= place and is_ahead[later]
            ]
            assert sum(since is not None and since <= place for since in waiting) <= room
    assert traffic(100.0, 0.1)[1].waiting > 0.5
    assert traffic(100.0, 0.5)[1].waiting < 0.1


def test_it_is_told_where_reads_go(call: Call) -> None:
    words = "simulate", "--workers", 64, "--cluster"
    told = call(*words, "--json").facts["arithmetic"]["cluster_cache"]
    assert told["nodes"] == 8
    assert [one["room_of_all"] for one in told["by_room"]] == [0.25, 0.5, 0.75, 1.0]
    assert told["by_room"][-1]["store"] < 0.02
    for one in told["by_room"]:
        demand = 64 * 10_000 * 2  # bytes a second
        assert one["store_sends_per_second"] == pytest.approx(one["store"] * demand)
        received = 8 * one["node_receives_per_second"] - 8 * one["node_sends_per_second"]
        assert received == pytest.approx(one["store"] * demand)
        assert one["waiting"] == one["waiting_of_first_sweep"] == 0.0
    assert "Caches of 8 nodes as one" in call(*words).out


def test_a_slow_store_is_waited_for_less_the_more_the_disks_hold(call: Call) -> None:
    words = "simulate", "--workers", 64, "--cluster", "--store-bytes-per-second", "640_000"
    told = call(*words, "--json").facts["arithmetic"]["cluster_cache"]["by_room"]
    waits = [one["waiting"] for one in told]
    assert waits == sorted(waits, reverse=True)
    assert waits[0] > 0.3
    assert waits[-1] == 0.0
    assert all(one["waiting_of_first_sweep"] == pytest.approx(0.51, abs=0.02) for one in told)
