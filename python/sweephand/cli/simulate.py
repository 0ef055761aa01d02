"""Simulate a cluster: balance, reads, memory, start, restarts; nothing is trained.

Steps of PATH are the very ones of a run with these options: shares, loads and chunks. Of a
larger corpus (--samples, --chunks) the lengths are those of PATH, and without PATH they are
drawn as web, code, chat or long corpora have them; steps are planned over a corpus of that
size. The rest is arithmetic, and the tables tell them apart.

for example:
  sweephand simulate --workers 1024
  sweephand simulate --lengths long --workers 16384 --chunks 1_000_000 --samples 10**12
  sweephand simulate tokens.npz --workers 8 --size 65_536 --from-step 1000
  sweephand simulate tokens.npz --samples 10**10 --workers 64 --lanes 192 --png cluster.png
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from typing import Any

from sweephand.cli.cluster import Cluster
from sweephand.cli.options import add_corpus, count, flag, open_corpus, option, whole
from sweephand.cli.picture import keep_picture
from sweephand.cli.simulated_corpus import KINDS, SimulatedCorpus
from sweephand.cli.simulated_facts import arithmetic, planned_facts
from sweephand.cli.simulated_steps import SimulatedSteps, plan_steps, plan_steps_of
from sweephand.cli.simulation import draw, show
from sweephand.corpus.ledger import Ledger
from sweephand.layouts.attention import Attention
from sweephand.layouts.packed import Packed
from sweephand.source.options import DEFAULT_NUM_LANES
from sweephand.source.source import MinibatchSource
from sweephand.source.window import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
from sweephand.terminal.screen import Screen

PICTURE = "balance, reads, cache and restarts"

_SIZE = 16_384  # samples of each worker in a step
_MOST_LENGTHS = 1 << 21
_MOST_CHUNKS = 10**8


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
    add = partial(option, parser)
    add("--samples S", quantity, "in a sweep; 10**12, or those of PATH")
    add("--chunks C", quantity, "10**6 by default, or those of PATH")
    add("--workers K", count, "1,024 by default", 1024)
    lanes = "one for each worker by default; of PATH as it is 48, or as many as workers"
    add("--lanes P", count, lanes)
    size = f"samples in a minibatch, over all workers; by default {_SIZE:,} of each"
    add("--size M", quantity, size)
    add(
        "--window-chunks N",
        count,
        "open at a time over all lanes, and at least one in each; by default 128, of PATH as "
        "it is the window of a source",
    )
    add("--row-length N", count, "pack rows of so many samples")
    add("--seed N", whole, "0 by default", 0)
    add("--steps N", count, "to plan, 8 by default", 8)
    first = "the first to plan; by default 0 of PATH as it is, else a third of a sweep on"
    add("--from-step N", whole, first)
    equal = "length at which attention costs as much as all else, 24,576 by default"
    add("--equal-at N", count, equal, Attention().equal_at)
    group = parser.add_argument_group("machines")
    add = partial(option, group)
    add("--sample-bytes B", number, "2 by default", 2.0)
    add("--samples-per-second N", number, "of a worker, 10,000 by default", 10_000.0)
    add("--request-bytes B", quantity, "that are fetched at once, 8 MiB by default", 8 << 20)
    add("--requests-per-second N", number, "that the store answers, 5,500 by default", 5500.0)
    wait = "until the store begins to answer a request, with --cluster; 0.1 by default"
    add("--request-seconds T", number, wait, 0.1)
    add("--nodes N", count, "that have a cache; one for 8 workers")
    caches = "the caches of the nodes are one: what comes from the store, and from other nodes"
    flag(group, "--cluster", caches)
    sent = "that the store sends to all nodes, with --cluster; 12.5e9 by default"
    add("--store-bytes-per-second B", number, sent, 12.5e9)
    passed = "that a node receives, and sends, with --cluster; 3.125e9 by default (25 Gbit/s)"
    add("--link-bytes-per-second B", number, passed, 3.125e9)
    failures = "by default 7.8 for 16,384 workers, and in proportion"
    add("--failures-per-day F", number, failures)
    restart = (
        "that a failure costs besides the loader: half of what lies between two checkpoints, "
        "and starting again; 1,069 by default"
    )
    add("--restart-seconds T", number, restart, 1069.0)


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    if (arguments.chunks or 0) > _MOST_CHUNKS:
        raise ValueError(f"--chunks must be at most {_MOST_CHUNKS}, got {arguments.chunks}")
    is_real = bool(arguments.paths) and not (arguments.samples or arguments.chunks)
    if arguments.lanes is None:
        least = DEFAULT_NUM_LANES if is_real else 1
        arguments.lanes = max(least, arguments.workers)
    elif arguments.workers > arguments.lanes:
        raise ValueError(
            f"--workers {arguments.workers} need as many lanes, got --lanes {arguments.lanes}"
        )
    attention = Attention(arguments.equal_at)
    corpus, cluster, steps = (_real if is_real else _simulated)(arguments, attention)
    reads = cluster.reads(corpus.chunk_samples, arguments.seed)
    facts: dict[str, Any] = {
        "lengths": "those of PATH" if arguments.paths else arguments.lengths,
        "num_samples": corpus.num_samples,
        "num_chunks": len(corpus.chunk_samples),
        "num_sequences": corpus.num_sequences,
        "mean_length": corpus.num_samples / corpus.num_sequences,
        "longest": int(corpus.tile.max()),
        "row_length": arguments.row_length,
        "cluster": asdict(cluster),
        "planned": planned_facts(steps, cluster.size, is_real=is_real),
        "arithmetic": arithmetic(arguments, corpus, cluster, steps, reads),
    }
    show(facts, screen)
    keep_picture(arguments, screen, facts, lambda: draw(facts, reads))
    return facts


_Planned = tuple[SimulatedCorpus, Cluster, SimulatedSteps]


def _real(arguments: argparse.Namespace, attention: Attention) -> _Planned:
    """Plan the steps of a source of PATH."""
    rows = arguments.row_length
    with MinibatchSource(
        open_corpus(arguments),
        randomization_seed=arguments.seed,
        num_lanes=arguments.lanes,
        randomization_window_in_chunks=arguments.window_chunks
        or DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS,
        layout=Packed(rows, split_long="split") if rows else None,
        num_threads=0,
    ) as source:
        plan = source.timeline
        lengths = plan.corpus.core.sizes(0, min(plan.corpus.num_sequences, _MOST_LENGTHS))
        corpus = SimulatedCorpus(
            lengths,
            -(-plan.corpus.num_sequences // plan.corpus.core.num_chunks),
            plan.corpus.sizing.chunk_samples,
            plan.corpus.num_sequences,
        )
        cluster = _cluster(arguments, plan.block_chunks, corpus.num_samples)
        steps = plan_steps_of(
            source, cluster, arguments.steps, attention, arguments.from_step or 0
        )
    return corpus, cluster, steps


def _simulated(arguments: argparse.Namespace, attention: Attention) -> _Planned:
    """Plan steps of a corpus of which nothing but lengths is known."""
    samples, chunks = arguments.samples, arguments.chunks
    if arguments.paths:
        core = open_corpus(arguments).open(Ledger()).core
        lengths = core.sizes(0, min(core.num_sequences, _MOST_LENGTHS))
        corpus = SimulatedCorpus.of(
            lengths, samples or core.num_samples, chunks or core.num_chunks
        )
    else:
        wanted = samples or 10**12
        corpus = SimulatedCorpus.draw(
            arguments.lengths, wanted, min(chunks or 10**6, wanted), arguments.seed
        )
    window = arguments.window_chunks or DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
    cluster = _cluster(arguments, max(1, window // arguments.lanes), corpus.num_samples)
    steps = plan_steps(
        corpus,
        cluster,
        arguments.steps,
        attention,
        arguments.seed,
        arguments.row_length,
        arguments.from_step,
    )
    return corpus, cluster, steps


def _cluster(arguments: argparse.Namespace, block_chunks: int, most: int) -> Cluster:
    return Cluster(
        workers=arguments.workers,
        lanes=arguments.lanes,
        size=arguments.size or min(_SIZE * arguments.workers, most),
        block_chunks=block_chunks,
        sample_bytes=arguments.sample_bytes,
        samples_per_second=arguments.samples_per_second,
        request_bytes=arguments.request_bytes,
        requests_per_second=arguments.requests_per_second,
    )
