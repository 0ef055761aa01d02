"""What planning and packing reach, what limits them, and what users have today.

As in `source_figures.py`: one function per figure, contenders by name. All work in one thread
and are timed by what that thread computes, so that a shared machine does as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice

import numpy as np
from benchmarks.corpora import Tokens, make_lengths, make_offsets, make_tokens
from benchmarks.limits import RowPacker
from benchmarks.peers import packers
from benchmarks.source_figures import Figure
from numpy.typing import NDArray

import sweephand as sh
from sweephand import _core
from sweephand.demo.library_text import read_text, standard_library

ROW_LENGTH, ROWS = 2048, 64
ROW_CORPUS = 200_000


def rate(count: float, work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return count / (time.thread_time() - begin)


def shuffled(lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    return np.random.default_rng(2).permutation(lengths).astype(np.uint32)


def heavy_lengths() -> NDArray[np.int64]:
    """100,000 lengths, half of them below 435, one in a hundred above 7,948."""
    drawn = np.random.default_rng(0).random(100_000)
    places = [0, 0.01, 0.1, 0.5, 0.9, 0.99, 1]
    lengths = np.interp(drawn, places, np.log([16, 48, 135, 435, 1947, 7948, 8192]))
    return np.clip(np.rint(np.exp(lengths)), 1, 8192).astype(np.int64)


def function_lengths() -> NDArray[np.int64]:
    """Characters of the functions of Python's standard library, cut at 4,096."""
    lengths = np.diff(read_text(standard_library()).offsets)
    whole = np.repeat(4096, int((lengths // 4096).sum()))
    rest = lengths % 4096
    return np.concatenate([whole, rest[rest > 0]])


def planning(count: int = 200_000) -> Figure:
    """Rows from lengths alone, one thread: the kernels, the whole planner, and peers."""
    sizes = shuffled(make_lengths(count))
    source = row_source(sizes, ROW_LENGTH, 48)

    def planner() -> None:
        for _ in source.plan(ROWS * ROW_LENGTH, start=0):
            pass

    work: dict[str, Callable[[], object]] = {
        "sweephand, longest first": lambda: _core.compose.pack_longest_first(sizes, ROW_LENGTH),
        "sweephand, look-ahead 64": lambda: _core.compose.pack_in_order(sizes, ROW_LENGTH, 64),
        "sweephand, look-ahead 1,024": lambda: _core.compose.pack_in_order(
            sizes, ROW_LENGTH, 1024
        ),
        "sweephand, source.plan with 48 lanes": planner,
    }
    if find_spec("lightbinpack"):
        listed = sizes.tolist()
        work["LightBinPack obfd"] = lambda: packers.light_bin_pack(listed, ROW_LENGTH)
    few = sizes[:20_000]
    contenders = {
        name: (lambda call=call: rate(count, call) / 1e6)  # type: ignore[misc]
        for name, call in work.items()
    }
    contenders["first fit in Python"] = lambda: (
        rate(len(few), lambda: packers.first_fit(few.tolist(), ROW_LENGTH)) / 1e6
    )
    contenders["best fit decreasing per 1,000 in Python"] = lambda: (
        rate(len(few), lambda: packers.best_fit_decreasing(few.tolist(), ROW_LENGTH)) / 1e6
    )
    return Figure("M sequences/s", "", contenders)


def packed_rows() -> Figure:
    """Tokens, segments, positions and mask of rows, 64 at a time."""
    corpus = make_tokens(ROW_CORPUS)
    count = len(corpus.tokens)
    data = sh.ArrayDeserializer({"tokens": (corpus.tokens, corpus.offsets)})

    source = sh.MinibatchSource(data, layout=sh.Packed(ROW_LENGTH), num_threads=0)

    def ours() -> None:
        for _ in range(-(-count // (ROWS * ROW_LENGTH))):
            minibatch = source.next_minibatch(ROWS * ROW_LENGTH)
            _ = minibatch["tokens"].asarray(), minibatch["tokens"].mask
            _ = minibatch.segment_ids, minibatch.position_ids

    order = np.random.default_rng(2).permutation(ROW_CORPUS)
    packer = RowPacker(corpus.tokens, corpus.offsets, ROW_LENGTH, ROWS)
    once = sh.MinibatchSource(data, layout=sh.Packed(ROW_LENGTH), max_sweeps=1)
    plans = [plan._plan for plan in islice(once.plan(ROWS * ROW_LENGTH), 40)]
    contenders = {
        "sweephand": lambda: rate(count, ours) / 1e9,
        "C best fit": lambda: rate(count, lambda: packer(order)) / 1e9,
        "NumPy by hand, rows given": lambda: by_hand(corpus, plans),
    }
    if find_spec("grain"):
        few = np.split(corpus.tokens, corpus.offsets[1:-1])[:5000]
        contenders["Grain first fit, 64 open rows"] = lambda: (
            rate(
                sum(map(len, few)),
                lambda: packers.grain_first_fit(few, ROW_LENGTH),
            )
            / 1e9
        )
    return Figure("G tokens/s", "C best fit", contenders)


def by_hand(corpus: Tokens, plans: list[_core.compose.Plan]) -> float:
    """Rows as NumPy writes them when it is told which sequences stand where."""
    count = sum(plan.num_samples for plan in plans)
    jobs = [
        (plan.sequences().tolist(), plan.cells().reshape(-1, 4)[:, :2].tolist(), plan.num_rows)
        for plan in plans
    ]

    def work() -> None:
        for sequences, cells, rows in jobs:
            tokens = np.zeros((rows, ROW_LENGTH), np.uint16)
            segments = np.zeros(tokens.shape, np.int32)
            positions = np.zeros(tokens.shape, np.int32)
            segment = 0
            for sequence, (row, column) in zip(sequences, cells, strict=True):
                begin, end = corpus.offsets[sequence], corpus.offsets[sequence + 1]
                part = slice(column, column + end - begin)
                segment = segment + 1 if column else 1
                tokens[row, part] = corpus.tokens[begin:end]
                segments[row, part] = segment
                positions[row, part] = np.arange(end - begin)

    return rate(count, work) / 1e9


def fill_of(rows: _core.compose.Rows, sizes: NDArray[np.uint32], row_length: int) -> float:
    return float(sizes.sum(dtype=np.int64) / (len(rows.ends) * row_length))


def row_source(sizes: NDArray[np.uint32], row_length: int, lanes: int) -> sh.MinibatchSource:
    """One sweep of rows over tokens that are never touched, so never in memory."""
    corpus = sh.ArrayDeserializer(
        {"t": (np.zeros(int(sizes.sum()), np.uint8), make_offsets(sizes))}
    )
    return sh.MinibatchSource(
        corpus, layout=sh.Packed(row_length), num_lanes=lanes, max_sweeps=1
    )


def source_fill(sizes: NDArray[np.uint32], row_length: int, lanes: int) -> float:
    plans = row_source(sizes, row_length, lanes).plan(ROWS * row_length)
    count = sum(plan._plan.global_rows for plan in plans)
    return float(sizes.sum(dtype=np.int64) / (count * row_length))


def fills() -> list[tuple[str, str, float]]:
    """(corpus, packer, fill) of whole corpora; deterministic."""
    found = []
    corpora = {
        "log-normal, rows of 2,048": (shuffled(make_lengths()), 2048),
        "heavy tail, rows of 8,192": (shuffled(heavy_lengths()), 8192),
        "functions, rows of 4,096": (shuffled(function_lengths()), 4096),
    }
    for name, (sizes, length) in corpora.items():
        for window in (64, 1024):
            rows = _core.compose.pack_in_order(sizes, length, window)
            found.append((name, f"look-ahead {window:,}", fill_of(rows, sizes, length)))
        rows = _core.compose.pack_longest_first(sizes, length)
        found.append((name, "longest first of all", fill_of(rows, sizes, length)))
        for lanes in (1, 48):
            fill = source_fill(sizes, length, lanes)
            found.append((name, f"a source with {lanes} lanes", fill))
        for packer in (packers.first_fit, packers.best_fit_decreasing):
            count = len(packer(sizes[:20_000].tolist(), length))
            fill = float(sizes[:20_000].sum(dtype=np.int64) / (count * length))
            found.append((name, f"{packer.__name__} of 20,000", fill))
    return found


def bucket_fills() -> list[tuple[int, float, float]]:
    """(buckets, fill with optimal boundaries, fill with quantiles) of the log-normal corpus."""
    sizes = make_lengths()
    lengths, counts = np.unique(sizes, return_counts=True)
    counted = [
        _core.compose.SizeCount(*pair)
        for pair in zip(lengths.tolist(), counts.tolist(), strict=True)
    ]
    found = []
    for buckets in (8, 16, 32):
        shares = np.arange(1, buckets + 1) / buckets
        ends = np.quantile(sizes, shares, method="inverted_cdf")
        quantiles = sorted({int(end) for end in ends})
        best = _core.compose.best_boundaries(counted, buckets)
        fill, other = (
            float(sizes.sum() / _core.compose.padded_cells(counted, chosen))
            for chosen in (best, quantiles)
        )
        found.append((buckets, fill, other))
    return found


def first_tenth(sizes: NDArray[np.uint32], row_length: int, lanes: int) -> float:
    """Sequences per row in the first tenth of a source's rows, over the mean."""
    source = row_source(sizes, row_length, lanes)
    counts = np.array([plan.num_sequences for plan in source.plan(1)])
    return float(counts[: len(counts) // 10].mean() / counts.mean())
