"""Planning of rows and buckets, and packed rows beside the C kernel that writes the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

import sweephand as sh
from sweephand import _core
from sweephand.demo.library_text import read_text, standard_library

from .corpora import (
    PACKED_ROWS,
    ROW_LENGTH,
    make_lengths,
    make_tokens,
    shuffled_lengths,
    untouched,
)
from .limits import row_packer

timeout = 300
repeat = (1, 5, 2.0)
timer = time.thread_time  # all is done by one thread


def row_source(sizes: NDArray[np.uint32], length: int, lanes: int) -> sh.MinibatchSource:
    layout = sh.Packed(length)
    return sh.MinibatchSource(untouched(sizes), layout=layout, num_lanes=lanes, max_sweeps=1)


class Packing:
    """Rows from lengths alone."""

    params = (["longest first", "look-ahead 64", "look-ahead 1,024", "source with 48 lanes"],)
    param_names = ("packer",)

    def setup(self, packer: str) -> None:
        sizes = shuffled_lengths(make_lengths())
        source = row_source(sizes, ROW_LENGTH, 48)
        self.count = len(sizes)
        self.work: Callable[[], object] = {
            "longest first": lambda: _core.compose.pack_longest_first(sizes, ROW_LENGTH),
            "look-ahead 64": lambda: _core.compose.pack_in_order(sizes, ROW_LENGTH, 64),
            "look-ahead 1,024": lambda: _core.compose.pack_in_order(sizes, ROW_LENGTH, 1024),
            "source with 48 lanes": lambda: list(
                source.plan(PACKED_ROWS * ROW_LENGTH, start=0)
            ),
        }[packer]

    def time_rows(self, packer: str) -> None:
        self.work()

    def track_samples(self, packer: str) -> int:
        """Sequences here."""
        return self.count


class PackedRows:
    """Tokens, segments, positions and mask of rows, 64 at a time."""

    params = (["sweephand", "C best fit", "NumPy by hand, rows given"],)
    param_names = ("contender",)

    def setup(self, contender: str) -> None:
        self.work, self.count = packed_rows(contender)

    def time_sweep(self, contender: str) -> None:
        self.work()

    def track_samples(self, contender: str) -> int:
        return self.count


@cache
def packed_rows(contender: str) -> tuple[Callable[[], object], int]:
    """Return the work, and the tokens that it packs."""
    tokens, offsets = make_tokens()
    corpus = sh.ArrayDeserializer({"tokens": (tokens, offsets)})
    size = PACKED_ROWS * ROW_LENGTH
    if contender == "C best fit":
        order = np.random.default_rng(2).permutation(len(offsets) - 1)
        return row_packer(tokens, offsets, order, ROW_LENGTH, PACKED_ROWS), len(tokens)
    if contender == "sweephand":
        source = sh.MinibatchSource(corpus, layout=sh.Packed(ROW_LENGTH), num_threads=0)

        def ours() -> None:
            for _ in range(-(-len(tokens) // size)):
                minibatch = source.next_minibatch(size)
                _ = minibatch["tokens"].asarray(), minibatch["tokens"].mask
                _ = minibatch.segment_ids, minibatch.position_ids

        return ours, len(tokens)
    once = sh.MinibatchSource(corpus, layout=sh.Packed(ROW_LENGTH), max_sweeps=1)
    plans = [plan._plan for plan in islice(once.plan(size), 40)]
    jobs = [
        (plan.sequences().tolist(), plan.cells().reshape(-1, 4)[:, :2].tolist(), plan.num_rows)
        for plan in plans
    ]

    def numpy() -> None:
        for sequences, cells, rows in jobs:
            out = np.zeros((rows, ROW_LENGTH), np.uint16)
            segments, positions = np.zeros((2, rows, ROW_LENGTH), np.int32)
            segment = 0
            for sequence, (row, column) in zip(sequences, cells, strict=True):
                begin, end = offsets[sequence], offsets[sequence + 1]
                part = slice(column, column + end - begin)
                segment = segment + 1 if column else 1
                out[row, part] = tokens[begin:end]
                segments[row, part] = segment
                positions[row, part] = np.arange(end - begin)

    return numpy, sum(plan.num_samples for plan in plans)


@cache
def lengths_of(corpus: str) -> NDArray[np.uint32]:
    if corpus == "log-normal, rows of 2,048":
        return shuffled_lengths(make_lengths())
    if corpus == "heavy tail, rows of 8,192":  # half below 435, one in a hundred above 7,948
        drawn = np.random.default_rng(0).random(100_000)
        places = [0, 0.01, 0.1, 0.5, 0.9, 0.99, 1]
        lengths = np.interp(drawn, places, np.log([16, 48, 135, 435, 1947, 7948, 8192]))
        return shuffled_lengths(np.rint(np.exp(lengths)).astype(np.int64))
    lengths = np.diff(read_text(standard_library()).offsets)  # functions, in characters
    whole, rest = np.repeat(4096, int((lengths // 4096).sum())), lengths % 4096
    return shuffled_lengths(np.concatenate([whole, rest[rest > 0]]))


class Fill:
    """Samples over cells, in per cent; deterministic."""

    params = (
        ["log-normal, rows of 2,048", "heavy tail, rows of 8,192", "functions, rows of 4,096"],
        ["look-ahead 64", "look-ahead 1,024", "longest first", "1 lane", "48 lanes"],
    )
    param_names = ("corpus", "packer")
    unit = "%"

    def setup(self, corpus: str, packer: str) -> None:
        self.sizes = lengths_of(corpus)
        self.length = int(corpus.rpartition(" ")[2].replace(",", ""))

    def track_fill(self, corpus: str, packer: str) -> float:
        if packer.endswith(("lane", "lanes")):
            source = row_source(self.sizes, self.length, int(packer.split()[0]))
            plans = source.plan(PACKED_ROWS * self.length)
            rows = sum(plan.shape[0] for plan in plans if plan.shape)
        elif packer == "longest first":
            rows = len(_core.compose.pack_longest_first(self.sizes, self.length).ends)
        else:
            ahead = int(packer.split()[1].replace(",", ""))
            rows = len(_core.compose.pack_in_order(self.sizes, self.length, ahead).ends)
        return 100 * float(self.sizes.sum(dtype=np.int64)) / (rows * self.length)


class FirstTenth:
    """Sequences per row in the first tenth of a source's rows, over the mean."""

    def track_ratio(self) -> float:
        source = row_source(lengths_of("log-normal, rows of 2,048"), ROW_LENGTH, 48)
        counts = np.array([plan.num_sequences for plan in source.plan(1)])
        return float(counts[: len(counts) // 10].mean() / counts.mean())


class Buckets:
    """Fill with the best boundaries and with quantiles, and how long the best ones take."""

    params = ([8, 16, 32],)
    param_names = ("buckets",)
    unit = "%"

    def setup(self, buckets: int) -> None:
        self.sizes = make_lengths()
        lengths, counts = (part.tolist() for part in np.unique(self.sizes, return_counts=True))
        self.counted = [
            _core.compose.SizeCount(*pair) for pair in zip(lengths, counts, strict=True)
        ]

    def time_boundaries(self, buckets: int) -> None:
        _core.compose.best_boundaries(self.counted, buckets)

    def track_fill_of_best(self, buckets: int) -> float:
        return self.fill(_core.compose.best_boundaries(self.counted, buckets))

    def track_fill_of_quantiles(self, buckets: int) -> float:
        shares = np.arange(1, buckets + 1) / buckets
        ends = np.quantile(self.sizes, shares, method="inverted_cdf")
        return self.fill(sorted({int(end) for end in ends}))

    def fill(self, boundaries: list[int]) -> float:
        return (
            100 * float(self.sizes.sum()) / _core.compose.padded_cells(self.counted, boundaries)
        )


class PackedSeek:
    """Placing a source of packed rows, near the begin and near the end of a sweep."""

    params = ([200_000, 2_000_000], [0.01, 0.99])
    param_names = ("sequences", "place")

    def setup(self, count: int, place: float) -> None:
        lengths = make_lengths(count)
        self.source = sh.MinibatchSource(
            untouched(lengths, 1000),
            layout=sh.Packed(ROW_LENGTH),
            randomization_window_in_chunks=128,
        )
        self.time = int(lengths.sum() * place)

    def time_window(self, count: int, place: float) -> None:
        self.source.current_position = self.time
