"""What a source delivers, beside C loops that only copy and NumPy by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import sweephand as sh

from .corpora import (
    ROW_MINIBATCH,
    TOKEN_BUDGET,
    make_lengths,
    make_offsets,
    make_rows,
    make_tokens,
    scaled,
    untouched,
)
from .limits import Order, padded_gather, ragged_gather, row_gather
from .own_process import in_own_process, most_resident

timeout = 300
rounds, repeat = 3, (2, 4, 2.0)  # contenders take turns by rounds

ROWS = "rows, 1 M x 64 float32 and a label, 256 at a time"
RAGGED = "ragged tokens, 200 k sequences, 16,384 at a time"
PADDED = "padded int64 and mask, the same tokens"

Works = dict[str, Callable[[], object]]


class Delivery:
    """One sweep of rows, of ragged tokens and of padded tokens."""

    params = ([ROWS, RAGGED, PADDED], ["sweephand", "C gather", "NumPy by hand"])
    param_names = ("figure", "contender")

    def setup(self, figure: str, contender: str) -> None:
        self.work = FIGURES[figure]()[contender]

    def time_sweep(self, figure: str, contender: str) -> None:
        self.work()

    def track_samples(self, figure: str, contender: str) -> int:
        return len(make_rows().rows if figure == ROWS else make_tokens().tokens)


def order_of(corpus: dict[str, Any], size: int) -> Order:
    """Return what a source delivers in its first sweep."""
    source = sh.MinibatchSource(sh.ArrayDeserializer(corpus), max_sweeps=1)
    plans = [plan.sequences for plan in source.plan(size)]
    ends = np.cumsum([0, *(len(part) for part in plans)])
    return Order(np.concatenate(plans).astype(np.int64), ends.astype(np.int64))


@cache
def rows() -> Works:
    corpus = make_rows()
    data = corpus._asdict()
    order = order_of(data, ROW_MINIBATCH)
    source = sh.MinibatchSource(sh.ArrayDeserializer(data), num_threads=2, prefetch=8)

    def ours() -> None:
        for _ in range(-(-len(corpus.rows) // ROW_MINIBATCH)):
            minibatch = source.next_minibatch(ROW_MINIBATCH)
            _ = minibatch["rows"].values, minibatch["labels"].values

    def numpy() -> None:
        for begin in range(0, len(corpus.rows), ROW_MINIBATCH):
            picked = order.sequences[begin : begin + ROW_MINIBATCH]
            _ = corpus.rows[picked], corpus.labels[picked]

    gather = row_gather(*corpus, order, ROW_MINIBATCH)
    return {"sweephand": ours, "C gather": gather, "NumPy by hand": numpy}


@cache
def ragged() -> Works:
    tokens, offsets = make_tokens()
    data = {"tokens": (tokens, offsets)}
    order = order_of(data, TOKEN_BUDGET)
    source = sh.MinibatchSource(sh.ArrayDeserializer(data), num_threads=2, prefetch=4)

    def ours() -> None:
        for _ in order.batches[1:]:
            minibatch = source.next_minibatch(TOKEN_BUDGET)
            _ = minibatch["tokens"].values, minibatch["tokens"].offsets

    def numpy() -> None:
        for begin, end in zip(order.batches[:-1], order.batches[1:], strict=True):
            picked = order.sequences[begin:end]
            parts = [tokens[offsets[s] : offsets[s + 1]] for s in picked]
            _ = np.concatenate(parts), np.cumsum([len(part) for part in parts])

    gather = ragged_gather(tokens, offsets, order, TOKEN_BUDGET + 2048)
    return {"sweephand": ours, "C gather": gather, "NumPy by hand": numpy}


@cache
def padded() -> Works:
    tokens, offsets = make_tokens()
    data = {"tokens": (tokens, offsets)}
    order = order_of(data, TOKEN_BUDGET)
    wide = sh.StreamDefs(tokens=sh.StreamDef(dtype=np.int64))
    corpus = sh.ArrayDeserializer(data, wide)
    source = sh.MinibatchSource(corpus, layout=sh.Padded(), num_threads=2, prefetch=4)

    def ours() -> None:
        for _ in order.batches[1:]:
            minibatch = source.next_minibatch(TOKEN_BUDGET)
            _ = minibatch["tokens"].asarray(), minibatch["tokens"].mask

    def numpy() -> None:
        for begin, end in zip(order.batches[:-1], order.batches[1:], strict=True):
            picked = order.sequences[begin:end]
            lengths = offsets[picked + 1] - offsets[picked]
            grid = np.zeros((len(picked), lengths.max()), np.int64)
            mask = np.zeros(grid.shape, np.uint8)
            for row, sequence in enumerate(picked):
                first, last = offsets[sequence], offsets[sequence + 1]
                grid[row, : last - first] = tokens[first:last]
                mask[row, : last - first] = 1
                mask[row, 0] = 2

    widths = np.diff(offsets)[order.sequences]
    cells = np.maximum.reduceat(widths, order.batches[:-1]) * np.diff(order.batches)
    gather = padded_gather(tokens, offsets, order, int(cells.max()))
    return {"sweephand": ours, "C gather": gather, "NumPy by hand": numpy}


FIGURES = {ROWS: rows, RAGGED: ragged, PADDED: padded}


class ReadyCall:
    """Calls that find their minibatch ready, two streams: what Python costs."""

    calls = 200
    repeat = 5

    def setup(self) -> None:
        data = {"x": np.arange(4096.0), "y": np.arange(4096)}
        corpus = sh.ArrayDeserializer(data)
        self.source = sh.MinibatchSource(corpus, num_threads=1, prefetch=256)
        self.source.next_minibatch(1)
        time.sleep(0.05)  # until 256 are ready

    def teardown(self) -> None:
        self.source.close()

    def time_calls(self) -> None:
        for _ in range(self.calls):
            minibatch = self.source.next_minibatch(1)
            _ = minibatch["x"].values, minibatch["y"].values

    def track_samples(self) -> int:
        return self.calls


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


@cache
def planned(order: str) -> tuple[sh.MinibatchSource, int]:
    """Return a source to plan, and the samples of one plan."""
    if order.startswith("window"):
        corpus = untouched(make_lengths(20_000_000), 1000)
        return sh.MinibatchSource(corpus, randomization_window_in_chunks=128), scaled(2**22)
    num_chunks = scaled(10**6)
    window = 48 * num_chunks  # one block
    chunks = UnreadChunks(num_chunks)
    return sh.MinibatchSource(chunks, randomization_window_in_chunks=window), scaled(2**18)


class Planning:
    """Plans alone, on one thread: a window of 128 chunks, and uniform over 10^9 sequences."""

    params = (["window of 128 chunks, unequal lengths", "uniform over 10^9 sequences"],)
    param_names = ("order",)

    def setup(self, order: str) -> None:
        source, size = planned(order)
        self.plans = source.plan(size)
        self.count = next(self.plans).num_sequences
        self.times = -(-scaled(2_000_000) // self.count)

    def time_plans(self, order: str) -> None:
        for _ in range(self.times):
            next(self.plans)

    def track_samples(self, order: str) -> int:
        """Sequences here."""
        return self.times * self.count


def first_minibatch() -> Callable[[], object]:
    corpus = sh.ArrayDeserializer({"x": np.zeros(scaled(50_000_000), np.int32)})
    return lambda: sh.MinibatchSource(corpus).next_minibatch(256)


def resume(count: int, chunk_size: int | None, **options: Any) -> Callable[[], object]:
    offsets = make_offsets(np.random.default_rng(0).integers(1, 40, scaled(count)))
    tokens = np.zeros(offsets[-1], np.uint8)
    corpus = sh.ArrayDeserializer({"t": (tokens, offsets)}, chunk_size=chunk_size)
    with sh.MinibatchSource(corpus, **options) as source:
        source.current_position = int(offsets[-1] * 0.8)
        state = source.get_checkpoint_state()
    fresh = sh.MinibatchSource(corpus, **options)
    fresh.get_checkpoint_state()

    def run() -> None:
        fresh.restore_from_checkpoint(state)
        fresh.next_minibatch(16_384)

    return run


def place(percent: int) -> Callable[[], object]:
    source = sh.MinibatchSource(UnreadChunks(scaled(10**6)))
    time = source.num_samples_per_sweep * percent // 100
    return lambda: setattr(source, "current_position", time)


WAITS: dict[str, Callable[[], Callable[[], object]]] = {
    "first minibatch of 50 M samples in memory": first_minibatch,
    "resume at 80 %, 200 k sequences, from restore to the first minibatch": (
        lambda: resume(200_000, None)
    ),
    "resume at 80 %, 100 M sequences in chunks of 1,000, window of 128": (
        lambda: resume(100_000_000, 1000, randomization_window_in_chunks=128)
    ),
    "resume at 80 %, 10 M sequences of unequal lengths as one block": (
        lambda: resume(10_000_000, None)
    ),
    "place at 1 % of 10^6 chunks, 10^9 sequences": lambda: place(1),
    "place at 99 % of 10^6 chunks, 10^9 sequences": lambda: place(99),
}


class Fresh:
    """What a run waits for after its corpus is open: one call in a process of its own."""

    params = (list(WAITS),)
    param_names = ("wait",)
    rounds, repeat, number, warmup_time, min_run_count = 5, 1, 1, 0, 1

    def setup(self, wait: str) -> None:
        self.work = WAITS[wait]()

    def time_wait(self, wait: str) -> None:
        self.work()


class FreshMemory:
    """By how many bytes the process grows at most meanwhile."""

    params = (list(WAITS),)
    param_names = ("wait",)
    unit = "bytes"

    def track_grown(self, wait: str) -> int:
        return in_own_process(grow, wait)[0]


def grow(wait: str) -> list[int]:
    work = WAITS[wait]()
    before = most_resident()
    work()
    return [most_resident() - before]
