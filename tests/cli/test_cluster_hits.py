"""What is predicted of a cluster's cache is what nodes do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.read.cluster_nodes import NUM_CHUNKS, Nodes
from tests.read.http_store import HttpStore
from tests.read.test_cluster_cache import patient, web

from sweephand.cli.cluster_hits import later_parts, reads_of_cluster

__all__ = ["patient", "web"]  # fixtures


@pytest.mark.parametrize(("num_nodes", "room"), [(2, 20), (3, 15), (4, 15)])
def test_a_simulation_predicts_where_reads_go(
    num_nodes: int, room: int, web: HttpStore, tmp_path: Path
) -> None:
    _, stats, fetched = Nodes(web, tmp_path, [room] * num_nodes).read()
    told = reads_of_cluster(num_nodes, NUM_CHUNKS, room, 3, seed=1)
    assert [one.store for one in told] == pytest.approx(fetched, rel=0.1, abs=2)
    found = [sum(one[f"cache_{name}"] for one in stats) for name in ("peer_hits", "hits")]
    reads = sum(found) + sum(fetched)
    assert found[0] / reads == pytest.approx(sum(one.peers for one in told) / 180, abs=0.1)


def test_predicted_reads_are_the_arithmetic() -> None:
    for nodes, part in ((1, 0.5), (8, 0.25), (8, 1.0), (100, 0.75)):
        told = later_parts(nodes, part, seed=3)
        assert told["store"] == pytest.approx(1 - part, abs=0.02)
        assert told["own"] == pytest.approx(part / nodes, abs=0.04)


def test_it_is_told_where_reads_go(call: Call) -> None:
    words = "simulate", "--workers", 64, "--cluster"
    told = call(*words, "--json").facts["arithmetic"]["cluster_cache"]
    assert told["nodes"] == 8
    assert [one["room_of_all"] for one in told["by_room"]] == [0.25, 0.5, 0.75, 1.0]
    assert told["by_room"][-1]["store"] < 0.02
    assert "Caches of 8 nodes as one" in call(*words).out
