"""The same arrays through the loaders that users have today, beside ours.

    python -m benchmarks.peers              print the table
    python -m benchmarks.peers --write      write it into docs/performance.md too

Needs the extra `bench`; a peer that is not installed is named and left out. Peers take
turns, so that all of them see the same machine; figures are medians, with the smallest and the
largest.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any

from benchmarks.corpora import make_rows, make_tokens
from benchmarks.tables import spread, write_table

Peer = Callable[[Any], Iterator[int]]

# Figure: its corpus, and peer -> (package that it needs, module, function).
FIGURES: dict[str, tuple[Callable[[], Any], dict[str, tuple[str, str, str]]]] = {
    "rows": (
        make_rows,
        {
            "sweephand": ("sweephand", "sweephand_loop", "rows"),
            "torch DataLoader": ("torch", "torch_loaders", "rows"),
            "torch DataLoader, batched": ("torch", "torch_loaders", "batched_rows"),
            "StatefulDataLoader, batched": ("torchdata", "torch_loaders", "stateful_rows"),
            "Grain MapDataset": ("grain", "grain_maps", "rows"),
        },
    ),
    **{
        figure: (
            make_tokens,
            {
                "sweephand": ("sweephand", "sweephand_loop", figure),
                "torch DataLoader, batched": ("torch", "torch_loaders", figure),
                "Grain MapDataset": ("grain", "grain_maps", figure),
            },
        )
        for figure in ("ragged", "padded")
    },
}


def per_second(peer: Peer, corpus: Any, seconds: float) -> float:
    """Return samples per second, after a first minibatch."""
    minibatches = peer(corpus)
    next(minibatches)
    count = 0
    begin = time.perf_counter()
    for samples in minibatches:
        count += samples
        if time.perf_counter() - begin > seconds:
            break
    return count / (time.perf_counter() - begin)


def compare(figure: str, repetitions: int, seconds: float) -> Iterator[str]:
    make, contenders = FIGURES[figure]
    corpus = make()
    peers: dict[str, Peer] = {}
    for name, (package, module, function) in contenders.items():
        if find_spec(package) is None:
            print(f"{name}: not installed; python -m pip install '.[bench]'")
            continue
        peers[name] = getattr(import_module(f"benchmarks.peers.{module}"), function)
    found: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(repetitions):
        for name, peer in peers.items():
            found[name].append(per_second(peer, corpus, seconds) / 1e6)
    best = median(found["sweephand"])
    for name, rates in found.items():
        yield f"| {figure} | {name} | {spread(rates)} | {best / median(rates):.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.7)
    options = parser.parse_args()
    lines = [
        "| figure | loader | M samples/s | ours is faster by |",
        "|---|---|---|---|",
    ]
    print(*lines, sep="\n")
    for figure in FIGURES:
        for line in compare(figure, options.repetitions, options.seconds):
            print(line, flush=True)
            lines.append(line)
    if options.write:
        write_table("peers", lines)


if __name__ == "__main__":
    main()
