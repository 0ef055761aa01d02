"""Simulate a cluster: balance, reads, memory, start, restarts; nothing is trained.

Lengths are those of PATH, or drawn as web, code, chat or long corpora have them. Steps are
planned for real, over a corpus of that size; the rest is arithmetic, and the tables say which.

for example:
  sweephand simulate --workers 1024
  sweephand simulate --lengths long --workers 16384 --chunks 1_000_000 --samples 10**12
  sweephand simulate tokens.npz --workers 64 --lanes 192 --size 1_000_000 --png cluster.png
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.cli.cache_hits import CHUNKS, hits_of_known_future, hits_of_lru, needs
from sweephand.cli.cluster import Cluster
from sweephand.cli.options import add_corpus, count, open_corpus, whole
from sweephand.cli.picture import keep_picture
from sweephand.cli.simulated_corpus import KINDS, SimulatedCorpus
from sweephand.cli.simulated_steps import SimulatedSteps, plan_steps
from sweephand.cli.simulation import draw, show
from sweephand.corpus.ledger import Ledger
from sweephand.layouts.attention import Attention
from sweephand.source.window import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
from sweephand.terminal.screen import Screen

PICTURE = "balance, reads, cache and restarts"

_SIZE = 16_384  # samples of each worker in a step
_MOST_LENGTHS = 1 << 21
_MOST_CHUNKS = 10**8
_CACHES = (0.1, 0.25, 0.5, 0.75)
_OTHER_LOADERS = (300, 3600)  # seconds that a loader takes that replays or shuffles again


def quantity(text: str) -> int:
    """Read a positive number that may be large: 10**12, 1e12 or 1_000_000.

    Examples
    --------
    >>> quantity("10**12") == quantity("1e12"), quantity("16_384")
    (True, 16384)
    """
    base, power, exponent = text.partition("**")
    if power:
        exponents = whole(exponent)
        if exponents > 18:
            raise argparse.ArgumentTypeError(f"must be at most 10**18, got {text!r}")
        return int(count(base) ** exponents)
    return count(text if "e" not in text.lower() else f"{float(text):.0f}")


def number(text: str) -> float:
    """Read a positive number."""
    value = float(text)
    if not 0 < value < 1e18:
        raise argparse.ArgumentTypeError(f"must be positive, got {text!r}")
    return value


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser, is_optional=True)
    parser.add_argument(
        "--lengths", choices=KINDS, default="web", help="what to draw where no PATH is given"
    )
    add = parser.add_argument
    add("--samples", metavar="S", type=quantity, help="in a sweep; 10**12, or those of PATH")
    add("--chunks", metavar="C", type=quantity, help="10**6 by default, or those of PATH")
    add("--workers", metavar="K", type=count, default=1024, help="1,024 by default")
    add("--lanes", metavar="P", type=count, help="one for each worker by default")
    add(
        "--size",
        metavar="M",
        type=quantity,
        help=f"samples in a minibatch, over all workers; by default {_SIZE:,} of each",
    )
    add(
        "--window-chunks",
        metavar="N",
        type=count,
        default=DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS,
        help="open at a time over all lanes, and at least one in each; 128 by default",
    )
    add("--row-length", metavar="N", type=count, help="pack rows of so many samples")
    add("--seed", metavar="N", type=whole, default=0, help="0 by default")
    add("--steps", metavar="N", type=count, default=8, help="to plan, 8 by default")
    add(
        "--equal-at",
        metavar="N",
        type=count,
        default=Attention().equal_at,
        help="length at which attention costs as much as all else, 24,576 by default",
    )
    group = parser.add_argument_group("machines")
    add = group.add_argument
    add("--sample-bytes", metavar="B", type=number, default=2.0, help="2 by default")
    add(
        "--samples-per-second",
        metavar="N",
        type=number,
        default=10_000.0,
        help="of a worker, 10,000 by default",
    )
    add(
        "--request-bytes",
        metavar="B",
        type=quantity,
        default=8 << 20,
        help="that are fetched at once, 8 MiB by default",
    )
    add(
        "--requests-per-second",
        metavar="N",
        type=number,
        default=5500.0,
        help="that the store answers, 5,500 by default",
    )
    add("--nodes", metavar="N", type=count, help="that have a cache; one for 8 workers")
    add(
        "--failures-per-day",
        metavar="F",
        type=number,
        help="by default 7.8 for 16,384 workers, and in proportion",
    )
    add(
        "--restart-seconds",
        metavar="T",
        type=number,
        default=1069.0,
        help="that a failure costs besides the loader: half of what lies between two "
        "checkpoints, and starting again; 1,069 by default",
    )


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    if (arguments.chunks or 0) > _MOST_CHUNKS:
        raise ValueError(f"--chunks must be at most {_MOST_CHUNKS}, got {arguments.chunks}")
    corpus = _corpus(arguments)
    cluster = _cluster(arguments)
    if cluster.workers > cluster.lanes:
        raise ValueError(
            f"--workers {cluster.workers} need as many lanes, got --lanes {cluster.lanes}"
        )
    attention = Attention(arguments.equal_at)
    steps = plan_steps(
        corpus, cluster, arguments.steps, attention, arguments.seed, arguments.row_length
    )
    reads = cluster.reads(corpus.chunk_samples, arguments.seed)
    facts: dict[str, Any] = {
        "ok": True,
        "lengths": "those of PATH" if arguments.paths else arguments.lengths,
        "num_samples": corpus.num_samples,
        "num_chunks": len(corpus.chunk_samples),
        "num_sequences": len(corpus.chunk_samples) * corpus.chunk_sequences,
        "mean_length": float(corpus.tile.mean()),
        "longest": int(corpus.tile.max()),
        "row_length": arguments.row_length,
        "cluster": asdict(cluster),
        "planned": _planned_facts(steps),
        "arithmetic": _arithmetic(arguments, corpus, cluster, steps, reads),
    }
    show(facts, screen)
    keep_picture(arguments, screen, facts, lambda: draw(facts, reads))
    return facts


def _corpus(arguments: argparse.Namespace) -> SimulatedCorpus:
    samples, chunks = arguments.samples, arguments.chunks
    if not arguments.paths:
        wanted = samples or 10**12
        return SimulatedCorpus.draw(
            arguments.lengths, wanted, min(chunks or 10**6, wanted), arguments.seed
        )
    core = open_corpus(arguments).open(Ledger()).core
    lengths = core.sizes(0, min(core.num_sequences, _MOST_LENGTHS))
    return SimulatedCorpus.of(lengths, samples or core.num_samples, chunks or core.num_chunks)


def _cluster(arguments: argparse.Namespace) -> Cluster:
    lanes = arguments.lanes or arguments.workers
    return Cluster(
        workers=arguments.workers,
        lanes=lanes,
        size=arguments.size or _SIZE * arguments.workers,
        block_chunks=max(1, arguments.window_chunks // lanes),
        sample_bytes=arguments.sample_bytes,
        samples_per_second=arguments.samples_per_second,
        request_bytes=arguments.request_bytes,
        requests_per_second=arguments.requests_per_second,
    )


def _planned_facts(steps: SimulatedSteps) -> dict[str, Any]:
    return {
        "how": "by the planner, over a chunk table of this size",
        "scale": steps.scale,
        "steps": steps.num_steps,
        "placing_seconds": steps.placing_seconds,
        "planning_seconds": steps.planning_seconds,
        "sequences_per_step": steps.sequences,
        "longest_over_mean_in_samples": steps.longest_samples,
        "longest_over_mean_in_cost": steps.longest_cost,
        "balance": {
            name: {
                "fullest_over_mean_in_samples": float(shared.samples.mean()),
                "fullest_over_mean_in_cost": float(shared.cost.mean()),
                "samples_moved": float(shared.moved.mean()),
                "sequences_moved_to_a_worker": shared.moved_sequences,
                "sharing_seconds": shared.seconds,
            }
            for name, shared in steps.by_balance.items()
        },
    }


def _arithmetic(
    arguments: argparse.Namespace,
    corpus: SimulatedCorpus,
    cluster: Cluster,
    steps: SimulatedSteps,
    reads: NDArray[np.int64],
) -> dict[str, Any]:
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
        "failures_per_day": failures,
        "restarts": [
            {
                "loader_seconds": seconds,
                "time_lost": cluster.lost(failures, arguments.restart_seconds + seconds),
            }
            for seconds in (ours, *_OTHER_LOADERS)
        ],
    }
