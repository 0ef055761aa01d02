"""Facts of a simulation, as JSON types: steps that were planned, and arithmetic."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.cli.cache_hits import CHUNKS, hits_of_known_future, hits_of_lru, needs
from sweephand.cli.cluster import Cluster
from sweephand.cli.cluster_hits import chunks_of_small_run, later_parts, run_of_cluster
from sweephand.cli.cluster_links import Links, traffic_of_cluster
from sweephand.cli.simulated_corpus import SimulatedCorpus
from sweephand.cli.simulated_steps import SimulatedSteps

_CACHES = (0.1, 0.25, 0.5, 0.75)
_DISKS = (0.25, 0.5, 0.75, 1.0)  # of all nodes together
_SWEEPS = 3  # of which the first fills the disks
_LEAST_WINDOW, _LEAST_STEP = 16, 0.25  # chunks, of a small corpus
_OTHER_LOADERS = (300, 3600)  # seconds that a loader takes that replays or shuffles again


def planned_facts(steps: SimulatedSteps, size: int, *, is_real: bool) -> dict[str, Any]:
    """Return the facts of steps that were planned."""
    return {
        "how": "the steps of a run"
        if is_real
        else "by the planner, over a chunk table of this size",
        "of_a_run": is_real,
        "scale": steps.scale,
        "steps": steps.num_steps,
        "first_step": steps.first_step,
        "first_nominal_time": steps.first_time,
        "size": size,
        "placing_seconds": steps.placing_seconds,
        "planning_seconds": steps.planning_seconds,
        "sequences_per_step": steps.sequences,
        "excess_of_longest_in_samples": steps.longest_samples,
        "excess_of_longest_in_cost": steps.longest_cost,
        "balance": {
            name: {
                "excess_of_fullest_in_samples": _by_step(shared.samples),
                "excess_of_fullest_in_cost": _by_step(shared.cost),
                "share_of_samples_moved": float(shared.moved.mean()),
                "sequences_moved_to_a_worker": shared.moved_sequences,
                "chunks_of_a_worker": {
                    "mean": float(shared.chunks.mean()),
                    "max": int(shared.chunks.max()),
                },
                "sharing_seconds": shared.seconds,
            }
            for name, shared in steps.by_balance.items()
        },
    }


def _by_step(excesses: NDArray[np.float64]) -> dict[str, Any]:
    return {
        "mean": float(excesses.mean()),
        "max": float(excesses.max()),
        "by_step": excesses.tolist(),
    }


def arithmetic(
    arguments: argparse.Namespace,
    corpus: SimulatedCorpus,
    cluster: Cluster,
    steps: SimulatedSteps,
    reads: NDArray[np.int64],
) -> dict[str, Any]:
    """Return the facts that follow from the size of corpus and cluster."""
    num_chunks = len(corpus.chunk_samples)
    chunk_bytes = corpus.num_samples * cluster.sample_bytes / num_chunks
    start = cluster.start(chunk_bytes)
    workers, lanes = cluster.workers, cluster.lanes
    others = {workers // 2, workers * 3 // 4, workers - 1, workers * 2} - {0, workers}
    failures = arguments.failures_per_day or 7.8 * workers / 16_384
    ours = steps.placing_seconds * steps.scale + start["first_seconds"]
    nodes = min(arguments.nodes or -(-workers // 8), CHUNKS)
    order = needs(nodes, arguments.seed)
    return {
        "how": "exact for reads and lanes, by formulas for the rest",
        "chunk_bytes": chunk_bytes,
        "chunk_reads": {
            "mean": float(reads.mean()),
            "max": int(reads.max()),
            "fair": num_chunks / workers,
        },
        "steady": cluster.steady(chunk_bytes),
        "start": start,
        "memory": cluster.memory(num_chunks, chunk_bytes, corpus.chunk_sequences),
        "resharing": [cluster.resharing(k) for k in sorted(others) if k <= lanes],
        "cache": {
            "how": f"nodes with a cache, run over {CHUNKS} chunks, after the first sweeps",
            "nodes": nodes,
            "by_room": [
                {
                    "room": room,
                    "known_future": hits_of_known_future(order, int(room * CHUNKS)),
                    "lru": hits_of_lru(order, int(room * CHUNKS)),
                }
                for room in _CACHES
            ],
        },
        "cluster_cache": cluster_cache(arguments, cluster, num_chunks, chunk_bytes)
        if arguments.cluster
        else None,
        "failures_per_day": failures,
        "restarts": [
            {
                "loader_seconds": seconds,
                "time_lost": cluster.lost(failures, arguments.restart_seconds + seconds),
            }
            for seconds in (ours, *_OTHER_LOADERS)
        ],
    }


def cluster_cache(
    arguments: argparse.Namespace, cluster: Cluster, num_chunks: int, chunk_bytes: float
) -> dict[str, Any]:
    """Return the sources of the reads of nodes that share their caches, and the costs."""
    nodes = arguments.nodes or -(-arguments.workers // 8)
    scale = chunks_of_small_run(nodes) / num_chunks
    links = Links(
        store=arguments.store_bytes_per_second / chunk_bytes,
        node=arguments.link_bytes_per_second / chunk_bytes,
        demand=cluster.steady(chunk_bytes)["chunks_per_second"],
        window=round(_scaled(cluster.lanes * cluster.block_chunks, scale, _LEAST_WINDOW)),
        step=_scaled(cluster.size * cluster.sample_bytes / chunk_bytes, scale, _LEAST_STEP),
        request_seconds=arguments.request_seconds,
    )
    return {
        "how": "nodes whose caches are one, run at a small size, after the first sweep",
        "nodes": nodes,
        "store_bytes_per_second": arguments.store_bytes_per_second,
        "link_bytes_per_second": arguments.link_bytes_per_second,
        "by_room": [
            {
                "room_of_all": part,
                **later_parts(nodes, part, arguments.seed),
                **_on_links(nodes, part, arguments.seed, links, chunk_bytes),
            }
            for part in _DISKS
        ],
    }


def _scaled(chunks: float, scale: float, least: float) -> float:
    """Return as large a part of a small corpus, but no less than keeps links busy."""
    return min(chunks, max(least, chunks * scale))


def _on_links(
    nodes: int, part: float, seed: int, links: Links, chunk_bytes: float
) -> dict[str, float]:
    """Return the mean traffic of links in later sweeps without waits, and the waiting."""
    chunks = chunks_of_small_run(nodes)
    # In the last sweep nothing more is kept, which leaves room.
    reads = run_of_cluster(nodes, chunks, round(part * chunks / nodes), _SWEEPS + 1, seed)
    first, *later, _ = traffic_of_cluster(reads, nodes, links)
    rate = links.demand / chunks * chunk_bytes  # of a chunk in each sweep
    return {
        "store_sends_per_second": rate * float(np.mean([one.store for one in later])),
        "node_receives_per_second": rate * float(np.mean([one.received for one in later])),
        "node_sends_per_second": rate * float(np.mean([one.sent for one in later])),
        "fullest_node_sends_per_second": rate
        * float(np.mean([one.sent for one in later], 0).max()),
        "waiting_of_first_sweep": first.waiting,
        "waiting": float(np.mean([one.waiting for one in later])),
    }
