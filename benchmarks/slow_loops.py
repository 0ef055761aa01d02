"""Loops with one fault each, what `source.stats()` shows of it, and the loop after its cure.

    python -m benchmarks.slow_loops              a table, in two minutes
    python -m benchmarks.slow_loops --scale .1   quick and rough

docs/performance.md, "My loop is slow", leads from the figures to the cures by questions.
A step is a pause: an accelerator computes, and the processor is free.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, chdir
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sweephand as sh

from .suite.store import Store

STEP = 0.005  # seconds
CLOCKS = ("read_seconds", "decode_seconds", "assemble_seconds")
COUNTS = (*CLOCKS, "waited_seconds")
Open = Callable[[], tuple[sh.MinibatchSource, int]]


class Loop(NamedTuple):
    """A loop's seconds, and those of the source's clocks."""

    seconds: float
    stats: Mapping[str, float]
    samples: int
    total_samples: int

    @property
    def waiting(self) -> float:
        """The part of the time for which the loop waited."""
        return self.stats["waited_seconds"] / self.seconds

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds

    @property
    def slowest(self) -> str:
        """The clock of the source that ran longest: it names the cause."""
        return max(CLOCKS, key=lambda name: self.stats[name])


class Fault(NamedTuple):
    """A slow loop, and the same after its cure."""

    slow: Open
    cured: Open
    cure: str
    step: float = STEP


def run(make: Open, step: float) -> Loop:
    """Run one sweep of a loop, and measure what follows its first minibatch."""
    source, size = make()
    with source:
        minibatches = source.minibatches(size)
        num_first = next(minibatches).num_samples
        first, samples, begin = source.stats(), 0, time.perf_counter()
        for minibatch in minibatches:
            samples += minibatch.num_samples
            if step:
                time.sleep(step)
        seconds, stats = time.perf_counter() - begin, source.stats()
        taken = {name: stats[name] - first[name] for name in COUNTS}
        return Loop(seconds, taken, samples, num_first + samples)


def words(sequence: Mapping[str, Any]) -> dict[str, Any]:
    """Compute in Python for about a millisecond, as a tokenizer in Python does."""
    total = 0
    for number in sequence["x"].tolist() * 40:
        total = (total * 31 + int(number)) % 65_521
    return {"x": sequence["x"] + total}


def slow_map(count: int) -> Fault:
    write_lines(Path("texts.jsonl"), count)
    corpus = sh.open("texts.jsonl")

    def mapped(*, cache: bool = False) -> tuple[sh.MinibatchSource, int]:
        return sh.MinibatchSource(corpus.map(words, cache=cache), max_sweeps=1), 16_384

    return Fault(mapped, partial(mapped, cache=True), "`cache=True`")


def map_that_holds_the_gil(count: int) -> Fault:
    corpus = sh.ArrayDeserializer({"x": list(np.arange(200 * count).reshape(-1, 200) % 999)})

    def mapped(executor: Any) -> tuple[sh.MinibatchSource, int]:
        source = sh.MinibatchSource(corpus.map(words), max_sweeps=1, map_executor=executor)
        return source, 3200

    return Fault(
        partial(mapped, "threads"), partial(mapped, "processes"), '`map_executor="processes"`'
    )


def ranks(sequence: Mapping[str, Any]) -> dict[str, Any]:
    """Sort many numbers, which leaves Python's lock to others."""
    return {"x": sequence["x"] + np.sort(np.resize(sequence["x"], 20_000))[0]}


def no_thread(count: int) -> Fault:
    rows = np.random.default_rng(0).integers(0, 1000, (count, 200))
    corpus = sh.ArrayDeserializer({"x": list(rows)})

    def mapped(**options: int) -> tuple[sh.MinibatchSource, int]:
        return sh.MinibatchSource(corpus.map(ranks), max_sweeps=1, **options), 3200

    slow = partial(mapped, num_threads=0, num_map_workers=0)
    return Fault(slow, mapped, "both options left out")


def small_window(store: Store, count: int) -> Fault:
    np.arange(2048 * 512 * count, dtype=np.uint16).tofile("tokens.bin")
    corpus = sh.RawTokensDeserializer(f"{store.url}/tokens.bin", "uint16", 2048)

    def opened(**options: int) -> tuple[sh.MinibatchSource, int]:
        return sh.MinibatchSource(corpus, max_sweeps=1, num_lanes=2, **options), 65_536

    return Fault(
        partial(opened, randomization_window_in_chunks=2),
        partial(opened, randomization_window_in_chunks=32),
        "a larger window",
    )


def slow_format(count: int) -> Fault:
    write_lines(Path("lines.jsonl.gz"), count, in_gzip)
    corpus = sh.open("lines.jsonl.gz")
    sequences = [
        array
        for minibatch in sh.MinibatchSource(corpus, randomize=False, max_sweeps=1).minibatches(
            65_536
        )
        for array in minibatch["x"].as_sequences()
    ]
    np.save("x.npy", np.concatenate(sequences))
    np.save("x_offsets.npy", np.cumsum([0, *map(len, sequences)]))

    def opened(path: str) -> tuple[sh.MinibatchSource, int]:
        window = {"randomization_window_in_chunks": 1, "num_lanes": 1}
        return sh.MinibatchSource(sh.open(path), max_sweeps=1, **window), 65_536

    return Fault(
        partial(opened, "lines.jsonl.gz"),
        partial(opened, "x.npy"),
        "the data as `.npy`, once",
        STEP / 5,
    )


def small_minibatches(count: int) -> Fault:
    rows = np.zeros((65_536 * count, 64), np.float32)
    corpus = sh.ArrayDeserializer({"x": rows})

    def opened(size: int) -> tuple[sh.MinibatchSource, int]:
        return sh.MinibatchSource(corpus, max_sweeps=1), size

    return Fault(partial(opened, 16), partial(opened, 4096), "4,096 rows in place of 16", 0)


def plain(path: Path) -> Any:
    return path.open("w")


def in_gzip(path: Path) -> Any:
    return gzip.open(path, "wt", compresslevel=1)


def write_lines(path: Path, count: int, create: Callable[[Path], Any] = plain) -> None:
    rng = np.random.default_rng(0)
    with create(path) as file:
        for _ in range(count):
            file.write(json.dumps({"x": rng.integers(0, 60_000, 200).tolist()}) + "\n")


def faults(store: Store, scale: float) -> Iterator[tuple[str, Fault]]:
    """Yield each fault; data are written where the process is."""

    def scaled(count: int) -> int:
        return max(1, round(count * scale))

    yield "a slow map, again at every start", slow_map(scaled(2000))
    yield "a map that holds the GIL", map_that_holds_the_gil(scaled(2000))
    yield "`num_threads=0`, `num_map_workers=0`", no_thread(scaled(4000))
    yield "a store, with a small window", small_window(store, scaled(40))
    yield "a slow format", slow_format(scaled(40_000))
    yield "minibatches of 16 rows", small_minibatches(scaled(8))


def measured(scale: float = 1, turns: int = 3) -> Iterator[tuple[str, Fault, Loop, Loop]]:
    """Yield each fault with its loop before and after the cure: the medians of some turns."""
    with ExitStack() as stack:
        stack.enter_context(chdir(stack.enter_context(tempfile.TemporaryDirectory())))
        os.environ["SWEEPHAND_CACHE"] = str(Path("cache").absolute())
        store = stack.enter_context(Store())
        for name, fault in faults(store, scale):
            run(fault.cured, 0)  # writes indexes, and what is kept
            pairs = [
                (run(fault.slow, fault.step), run(fault.cured, fault.step))
                for _ in range(turns)
            ]
            slow, cured = (
                sorted(loops, key=lambda loop: loop.seconds)[turns // 2]
                for loops in zip(*pairs, strict=True)
            )
            yield name, fault, slow, cured


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.slow_loops", description=__doc__)
    parser.add_argument("--scale", type=float, default=1)
    print("| fault | the loop waits | largest clock | cure | it waits then | speed |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, fault, slow, cured in measured(parser.parse_args().scale):
        gain = cured.samples_per_second / slow.samples_per_second
        print(
            f"| {name} | {slow.waiting:.0%} | `{slow.slowest}` | {fault.cure} "
            f"| {cured.waiting:.0%} | x {gain:.1f} |"
        )


if __name__ == "__main__":
    from benchmarks import slow_loops  # as processes find no function of the main module

    slow_loops.main()
