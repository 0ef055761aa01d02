"""Measure a source beside the machine's limits and NumPy, and write the table of the docs.

    python -m benchmarks.report             print the tables
    python -m benchmarks.report --write     write them into docs/performance.md too

Contenders are called in turn, so that all of them see the same machine; figures are medians,
with the smallest and the largest.
"""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path
from statistics import median

import numpy as np
from benchmarks import source_figures as figures
from benchmarks.tables import spread, write_table

import sweephand as sh

FIGURES = {
    "fixed-size rows, 1 M x 64 float32 and a label, 256 at a time": figures.fixed_rows,
    "ragged tokens, 200 k sequences, 16,384 at a time": figures.ragged_tokens,
    "padded int64 and mask, the same tokens": figures.padded_tokens,
    "a call that finds its minibatch ready, two streams": figures.ready_call,
    "planning alone, one thread": figures.planning,
}

_ARRAYS = """
x = np.zeros({count}, np.int32)
source = lambda: sh.MinibatchSource(sh.ArrayDeserializer({{"x": x}}))
"""
_TOKENS = """
rng = np.random.default_rng(0)
lengths = rng.integers(1, 40, {count})
offsets = np.concatenate([[0], np.cumsum(lengths)])
values = np.zeros(offsets[-1], np.uint8)
corpus = sh.ArrayDeserializer({{"t": (values, offsets)}}, chunk_size={chunk})
made = sh.MinibatchSource(corpus, {options})
made.current_position = int(offsets[-1] * 0.8)
state = made.get_checkpoint_state()
made.close()
fresh = sh.MinibatchSource(corpus, {options})
fresh.get_checkpoint_state()
"""
_CHUNKS = """
from benchmarks.source_figures import UnreadChunks
fresh = sh.MinibatchSource(UnreadChunks(10**6))
"""
FRESH = {
    "first minibatch of 50 M samples in memory": (
        _ARRAYS.format(count=50_000_000),
        "source().next_minibatch(256)",
    ),
    "resume at 80 %, 200 k sequences, from restore to the first minibatch": (
        _TOKENS.format(count=200_000, chunk=None, options=""),
        "fresh.restore_from_checkpoint(state); fresh.next_minibatch(16384)",
    ),
    "resume at 80 %, 100 M sequences in chunks of 1,000, window of 128": (
        _TOKENS.format(
            count=100_000_000, chunk=1000, options="randomization_window_in_chunks=128"
        ),
        "fresh.restore_from_checkpoint(state); fresh.next_minibatch(16384)",
    ),
    "resume at 80 %, 10 M sequences of unequal lengths as one block": (
        _TOKENS.format(count=10_000_000, chunk=None, options=""),
        "fresh.restore_from_checkpoint(state); fresh.next_minibatch(16384)",
    ),
    "place at 1 % of 10^6 chunks, 10^9 sequences": (
        _CHUNKS,
        "fresh.current_position = 10**7",
    ),
    "place at 99 % of 10^6 chunks, 10^9 sequences": (
        _CHUNKS,
        "fresh.current_position = 99 * 10**7",
    ),
}


def compare(repetitions: int) -> list[str]:
    lines = ["| figure | contender | median (min - max) | of the limit |", "|---|---|---|---|"]
    for name, make in FIGURES.items():
        figure = make()
        found: dict[str, list[float]] = {contender: [] for contender in figure.contenders}
        for contender in figure.contenders.values():
            contender()  # once, to warm up
        for _ in range(repetitions):
            for contender, work in figure.contenders.items():
                found[contender].append(work())
        for contender, values in found.items():
            ratio = ""
            if figure.limit:
                limits = found[figure.limit]
                parts = [ours / limit for ours, limit in zip(values, limits, strict=True)]
                ratio = f"{median(parts):.2f}"
            lines.append(f"| {name} | {contender} | {spread(values)} {figure.unit} | {ratio} |")
            print(lines[-1], flush=True)
    return lines


def measure_fresh(repetitions: int) -> list[str]:
    lines = [
        "| in a process of its own | ms, median (min - max) | grown MiB |",
        "|---|---|---|",
    ]
    for name, (prepare, work) in FRESH.items():
        runs = [figures.in_fresh_process(prepare, work) for _ in range(repetitions)]
        milliseconds = spread([run[0] for run in runs])
        grown = median([run[1] for run in runs])
        lines.append(f"| {name} | {milliseconds} | {grown:.1f} |")
        print(lines[-1], flush=True)
    return lines


def machine() -> str:
    model = next(
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    return (
        f"{model}, {os.cpu_count()} cores; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, sweephand {sh.__version__}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args()
    tables = [machine(), "", *compare(options.repetitions), "", *measure_fresh(5)]
    if options.write:
        write_table("measured", tables)


if __name__ == "__main__":
    main()
