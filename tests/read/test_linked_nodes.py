"""Nodes over links with rates: what leaves the store, and what loops wait for.

Not part of the plain run: SWEEPHAND_DISTRIBUTED=1 python -m pytest -s with this file. It prints
what is found.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.read.linked_nodes import ENTRY_BYTES, NUM_CHUNKS, NUM_LANES, NUM_STEPS, SWEEPS, Job
from tests.read.linked_nodes import run as run_job
from tests.read.mosaic_blocks import downloads
from tests.read.network import why_not

from sweephand.cli.cluster_hits import run_of_cluster
from sweephand.cli.cluster_links import Links, SweepTraffic, traffic_of_cluster

WANTED = os.environ.get("SWEEPHAND_DISTRIBUTED", "")
if not WANTED:
    pytest.skip("set SWEEPHAND_DISTRIBUTED=1 to run nodes over links", allow_module_level=True)
pytest.importorskip("aiohttp")
if reason := why_not():
    pytest.skip(reason, allow_module_level=True)

HEADERS = 0.03  # of TCP/IP and HTTP; as much goes back
SEEDS = range(8)


@cache
def run(job: Job) -> dict[str, Any]:
    """Run a job once, and print what was found."""
    found = run_job(job)
    assert found["codes"] == [0] * job.nodes
    if not job.kills:
        assert not found["warnings"]
        assert found["failures"] == 0
        print(f"\n{job}")
        print("  chunks of the store", [round(one) for one in found["store_chunks"]])
        print("  waiting", [f"{one:.1%}" for one in found["waiting"]])
    return found


def links_of(job: Job, request_seconds: float) -> Links:
    second = NUM_CHUNKS / job.sweep_seconds  # chunks, of all nodes
    return Links(
        store=job.store_rate * second,
        node=job.link_rate * second,
        demand=second,
        window=NUM_LANES,
        step=NUM_CHUNKS / NUM_STEPS,
        in_step=True,
        request_seconds=request_seconds,
        peer_seconds=request_seconds,
    )


def predicted(job: Job, request_seconds: float) -> list[list[SweepTraffic]]:
    """Return what is predicted of a job, for orders of some seeds."""
    links = links_of(job, request_seconds)
    return [
        traffic_of_cluster(
            run_of_cluster(job.nodes, NUM_CHUNKS, job.room, SWEEPS, seed),
            job.nodes,
            links,
        )
        for seed in SEEDS
    ]


def arithmetic(job: Job) -> int:
    """Return the chunks that leave the store in a run."""
    return NUM_CHUNKS + (SWEEPS - 1) * max(0, NUM_CHUNKS - job.nodes * job.room)


def stretch(waiting: Sequence[float]) -> float:
    """Return how many times as long a run takes as without waiting."""
    return float(np.mean([1 / (1 - one) for one in waiting]))


JOBS = [
    Job(2, 1.0, store_rate=0.4),
    Job(4, 1.0, store_rate=0.4),
    Job(8, 1.0, store_rate=0.4),
    Job(4, 0.5, store_rate=1.5),
    Job(4, 0.5, store_rate=0.7),
    Job(8, 0.5, store_rate=0.7),
    Job(4, 0.5, store_rate=0.4),
]


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_links_carry_and_loops_wait_as_is_predicted(job: Job) -> None:
    found = run(job)
    told = predicted(job, found["request_seconds"])
    assert sum(found["store_chunks"]) <= 1.05 * arithmetic(job)
    store = sum(found["store_sent"])
    assert store == pytest.approx(arithmetic(job) * (1 + HEADERS), rel=0.1)
    received, sent = (
        np.mean([sum(getattr(sweep, name).mean() for sweep in sweeps) for sweeps in told])
        for name in ("received", "sent")
    )
    into, out = (np.array(found[name]).sum(0).mean() for name in ("node_received", "node_sent"))
    print(f"  received {into:.1f} {received:.1f}, sent {out:.1f} {sent:.1f}, store {store:.1f}")
    waiting = np.mean([[one.waiting for one in sweeps] for sweeps in told], 0)
    own = found["request_seconds"]
    print("  predicted", [f"{one:.1%}" for one in waiting], f"a request {1e3 * own:.1f} ms")
    # Nodes know their own requests alone, and so more comes ahead from a slow store.
    near = 0.15 if job.part < 1 and job.store_rate < 0.7 else 0.1
    assert into == pytest.approx(received * (1 + HEADERS) + sent * HEADERS, rel=near)
    assert out == pytest.approx(sent * (1 + HEADERS) + received * HEADERS, rel=near)
    assert stretch(found["waiting"]) == pytest.approx(stretch(waiting), rel=0.1)
    if job.nodes <= 2 * (os.cpu_count() or 1):  # else nodes wait for processors too
        assert np.mean(found["waiting"]) == pytest.approx(waiting.mean(), rel=0.1, abs=0.02)


@pytest.mark.parametrize("job", JOBS[:4], ids=str)
def test_loops_do_not_wait_where_disks_and_links_suffice(job: Job) -> None:
    later = max(run(job)["waiting"][1:])
    if later > 0.01:  # whatever else the machine does adds to it
        later = max(run_job(job)["waiting"][1:])
    assert later <= 0.01


def test_what_comes_ahead_spares_waiting_for_a_slow_store() -> None:
    job = Job(4, 0.5, store_rate=0.7)
    without = [
        one._replace(room_since=None)
        for one in run_of_cluster(job.nodes, NUM_CHUNKS, job.room, SWEEPS, 0)
    ]
    links = links_of(job, run(job)["request_seconds"])
    told = traffic_of_cluster(without, job.nodes, links)[1:]
    later = run(job)["waiting"][1:]
    print("  without what comes ahead", [f"{one.waiting:.1%}" for one in told])
    assert sum(later) < 0.5 * sum(one.waiting for one in told)


@pytest.mark.parametrize("how", ["alone", "lru"])
@pytest.mark.parametrize(("nodes", "part"), [(4, 1.0), (8, 0.5)])
def test_the_store_sends_less_than_without_peers_or_future(
    nodes: int, part: float, how: str
) -> None:
    rate = {1.0: 0.4, 0.5: 0.7}[part]
    found = run(Job(nodes, part, store_rate=rate))
    other = run(Job(nodes, part, how, store_rate=rate))
    assert found["content"] == other["content"]
    assert 1.15 * sum(found["store_chunks"]) < sum(other["store_chunks"])
    assert sum(found["waiting"]) < sum(other["waiting"])


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_the_store_sends_no_more_than_with_shuffle_blocks(job: Job) -> None:
    block = NUM_LANES / job.nodes
    links = replace(links_of(job, run(job)["request_seconds"]), in_step=False)
    runs = [
        traffic_of_cluster(
            downloads(job.nodes, NUM_CHUNKS, job.room, SWEEPS, block, seed),
            job.nodes,
            links,
        )
        for seed in SEEDS
    ]
    sweeps = np.mean([[one.store for one in sweeps] for sweeps in runs], 0)
    waiting = np.mean([[one.waiting for one in sweeps] for sweeps in runs], 0)
    print(f"\n{job}\n  Mosaic {sweeps.round()}, waiting {[f'{one:.1%}' for one in waiting]}")
    assert sum(run(job)["store_chunks"]) <= 1.05 * sweeps.sum()


def test_nodes_that_are_killed_leave_nothing_wrong() -> None:
    kills = max(10, int(WANTED) // 2)
    job = Job(4, 0.5, sweep_seconds=1.6, store_rate=2.0, kills=kills)
    found = run(job)
    assert found["killed"] == kills
    assert found["content"] == run(Job(4, 0.5, store_rate=0.7))["content"]
    assert found["damaged"] == 0
    assert found["peer_hits"] > 0
    assert max(found["kept_bytes"]) <= job.room * ENTRY_BYTES
