"""What a source reaches, what limits it, and what users have today: one function per contender.

Every figure is a dict of contenders; each is made ready by its constructor and then called
again and again, and returns a rate in units per second. `report.py` calls them in turn.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from benchmarks.corpora import (
    ROW_MINIBATCH,
    TOKEN_BUDGET,
    make_lengths,
    make_offsets,
    make_rows,
    make_tokens,
)
from benchmarks.limits import Order, PaddedGather, RaggedGather, RowGather

import sweephand as sh

Contender = Callable[[], float]


@dataclass(frozen=True)
class Figure:
    """A comparison: the first contender is ours, `limit` names what the machine can do."""

    unit: str
    limit: str
    contenders: dict[str, Contender]


def rate(count: float, work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return count / (time.perf_counter() - begin)


def beside_c(
    unit: str,
    count: float,
    ours: Callable[[], object],
    gather: Callable[[], object],
    numpy: Callable[[], object],
) -> Figure:
    """Compare ours with a C loop, the limit, and with NumPy; each call makes `count` units."""
    works = {"sweephand": ours, "C gather": gather, "NumPy by hand": numpy}
    rates: dict[str, Contender] = {
        name: partial(rate, count, work) for name, work in works.items()
    }
    return Figure(unit, "C gather", rates)


def order_of(source: sh.MinibatchSource, size: int) -> Order:
    """What the source will deliver in its first sweep."""
    plans = [plan.sequences for plan in source.plan(size)]
    ends = np.cumsum([0, *(len(part) for part in plans)])
    return Order(np.concatenate(plans).astype(np.int64), ends.astype(np.int64))


def fixed_rows() -> Figure:
    corpus = make_rows()
    count = len(corpus.rows)
    data = {"rows": corpus.rows, "labels": corpus.labels}
    once = sh.MinibatchSource(sh.ArrayDeserializer(data), max_sweeps=1)
    order = order_of(once, ROW_MINIBATCH)
    source = sh.MinibatchSource(sh.ArrayDeserializer(data), num_threads=2, prefetch=8)
    gather = RowGather(corpus.rows, corpus.labels, ROW_MINIBATCH)

    def ours() -> None:
        for _ in range(count // ROW_MINIBATCH):
            minibatch = source.next_minibatch(ROW_MINIBATCH)
            _ = minibatch["rows"].values, minibatch["labels"].values

    def numpy() -> None:
        for begin in range(0, count, ROW_MINIBATCH):
            picked = order.sequences[begin : begin + ROW_MINIBATCH]
            _ = corpus.rows[picked], corpus.labels[picked]

    return beside_c("M rows/s", count / 1e6, ours, lambda: gather(order), numpy)


def ragged_tokens() -> Figure:
    corpus = make_tokens()
    count = len(corpus.tokens)
    data = {"tokens": (corpus.tokens, corpus.offsets)}
    once = sh.MinibatchSource(sh.ArrayDeserializer(data), max_sweeps=1)
    order = order_of(once, TOKEN_BUDGET)
    source = sh.MinibatchSource(sh.ArrayDeserializer(data), num_threads=2, prefetch=4)
    gather = RaggedGather(corpus.tokens, corpus.offsets, TOKEN_BUDGET + 2048)

    def ours() -> None:
        for _ in range(len(order.batches) - 1):
            minibatch = source.next_minibatch(TOKEN_BUDGET)
            _ = minibatch["tokens"].values, minibatch["tokens"].offsets

    def numpy() -> None:
        for begin, end in zip(order.batches[:-1], order.batches[1:], strict=True):
            picked = order.sequences[begin:end]
            parts = [corpus.tokens[corpus.offsets[s] : corpus.offsets[s + 1]] for s in picked]
            _ = np.concatenate(parts), np.cumsum([len(part) for part in parts])

    return beside_c("G tokens/s", count / 1e9, ours, lambda: gather(order), numpy)


def padded_tokens() -> Figure:
    corpus = make_tokens()
    count = len(corpus.tokens)
    data = {"tokens": (corpus.tokens, corpus.offsets)}
    wide = sh.StreamDefs(tokens=sh.StreamDef(dtype=np.int64))
    once = sh.MinibatchSource(sh.ArrayDeserializer(data), max_sweeps=1)
    order = order_of(once, TOKEN_BUDGET)
    source = sh.MinibatchSource(
        sh.ArrayDeserializer(data, wide), layout=sh.Padded(), num_threads=2, prefetch=4
    )
    widths = corpus.lengths[order.sequences]
    cells = max(
        int(widths[begin:end].max()) * (end - begin)
        for begin, end in zip(order.batches[:-1], order.batches[1:], strict=True)
    )
    gather = PaddedGather(corpus.tokens, corpus.offsets, cells)

    def ours() -> None:
        for _ in range(len(order.batches) - 1):
            minibatch = source.next_minibatch(TOKEN_BUDGET)
            _ = minibatch["tokens"].asarray(), minibatch["tokens"].mask

    def numpy() -> None:
        for begin, end in zip(order.batches[:-1], order.batches[1:], strict=True):
            picked = order.sequences[begin:end]
            lengths = corpus.lengths[picked]
            grid = np.zeros((len(picked), lengths.max()), np.int64)
            mask = np.zeros(grid.shape, np.uint8)
            for row, sequence in enumerate(picked):
                first, last = corpus.offsets[sequence], corpus.offsets[sequence + 1]
                grid[row, : last - first] = corpus.tokens[first:last]
                mask[row, : last - first] = 1
                mask[row, 0] = 2

    return beside_c("G tokens/s", count / 1e9, ours, lambda: gather(order), numpy)


def ready_call() -> Figure:
    """A call that finds its minibatch ready, in calls/s: what Python costs."""
    data = {"x": np.arange(4096.0), "y": np.arange(4096)}
    source = sh.MinibatchSource(sh.ArrayDeserializer(data), num_threads=1, prefetch=256)

    def ours() -> float:
        source.next_minibatch(1)
        time.sleep(0.05)  # until 256 are ready
        begin = time.perf_counter()
        for _ in range(200):
            minibatch = source.next_minibatch(1)
            _ = minibatch["x"].values, minibatch["y"].values
        return 200 / (time.perf_counter() - begin)

    return Figure("calls/s", "", {"sweephand": ours})


class UnreadChunks(sh.UserDeserializer):
    """An index without a payload: 1,000 sequences of one length in every chunk."""

    def __init__(self, num_chunks: int) -> None:
        self._num_chunks = num_chunks

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef())

    def num_chunks(self) -> int:
        return self._num_chunks

    def chunk_infos(self) -> object:
        return np.full((self._num_chunks, 2), 1000)

    def get_chunk(self, chunk_id: int) -> dict[str, object]:
        return {"x": np.zeros(1000, np.uint8)}


def planning(count: int = 4_000_000) -> Figure:
    """Planning alone, on one thread."""
    lengths = make_lengths(20_000_000)
    tokens = np.zeros(int(lengths.sum()), np.uint8)  # never touched, so never in memory
    corpus = sh.ArrayDeserializer({"t": (tokens, make_offsets(lengths))}, chunk_size=1000)
    windowed = sh.MinibatchSource(corpus, randomization_window_in_chunks=128)
    uniform = sh.MinibatchSource(
        UnreadChunks(10**6),
        randomization_window_in_chunks=48 * 10**6,  # one block
    )

    def plan(source: sh.MinibatchSource, samples: int) -> float:
        plans = source.plan(samples)
        next(plans)
        begin = time.perf_counter()
        done = 0
        while done < count:
            done += next(plans).num_sequences
        return done / (time.perf_counter() - begin) / 1e6

    return Figure(
        "M sequences/s",
        "",
        {
            "window of 128 chunks, unequal lengths": lambda: plan(windowed, 2**22),
            "uniform over 10^9 sequences": lambda: plan(uniform, 2**18),
        },
    )


_FRESH = """
import resource, sys, time
import numpy as np, sweephand as sh
{prepare}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.perf_counter()
{work}
seconds = time.perf_counter() - begin
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(seconds * 1e3, grown / 1024)
"""


def in_fresh_process(prepare: str, work: str) -> tuple[float, float]:
    """Return milliseconds and grown MiB of `work` in a process of its own."""
    code = _FRESH.format(prepare=prepare, work=work)
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    milliseconds, mebibytes = ran.stdout.split()
    return float(milliseconds), float(mebibytes)
