"""The corpora that benchmarks and peers share; made once in a process."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import sweephand as sh

ROW_MINIBATCH = 256
TOKEN_BUDGET = 16_384
ROW_LENGTH, PACKED_ROWS = 2048, 64


def scaled(count: int) -> int:
    """Return a size of data: less of it where only whether a benchmark runs is asked."""
    return max(1, int(count * float(os.environ.get("SWEEPHAND_BENCHMARK_SCALE", "1"))))


class Rows(NamedTuple):
    """Fixed-size rows with a label each."""

    rows: NDArray[np.float32]
    labels: NDArray[np.int64]


class Tokens(NamedTuple):
    """Sequences of tokens, one behind the other, and where each begins."""

    tokens: NDArray[np.uint16]
    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)


@cache
def make_rows(count: int = 1_000_000, width: int = 64) -> Rows:
    count = scaled(count)
    rng = np.random.default_rng(0)
    return Rows(rng.random((count, width), np.float32), rng.integers(0, 10, count))


def make_lengths(count: int = 200_000, seed: int = 0) -> NDArray[np.int64]:
    """Log-normal lengths with median 180 and sigma 1, clipped to [1, 2048]."""
    lengths = np.random.default_rng(seed).lognormal(np.log(180), 1, scaled(count))
    return np.clip(np.rint(lengths), 1, 2048).astype(np.int64)


def make_offsets(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def shuffled_lengths(lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    return np.random.default_rng(2).permutation(lengths).astype(np.uint32)


@cache
def make_tokens(count: int = 200_000) -> Tokens:
    offsets = make_offsets(make_lengths(count))
    tokens = np.random.default_rng(1).integers(0, 50_000, offsets[-1], np.uint16)
    return Tokens(tokens, offsets)


def untouched(lengths: NDArray[np.integer], chunk_size: int | None = None) -> sh.Deserializer:
    """Return tokens that are never read, and so never in memory."""
    offsets = make_offsets(lengths)
    tokens = np.zeros(offsets[-1], np.uint8)
    return sh.ArrayDeserializer({"t": (tokens, offsets)}, chunk_size=chunk_size)


def one_sweep(corpus: sh.Deserializer, size: int, **options: Any) -> Callable[[], None]:
    """Return the work of opening a source and reading one sweep in the caller's thread."""

    def run() -> None:
        with sh.MinibatchSource(corpus, max_sweeps=1, num_threads=0, **options) as source:
            for _ in source.minibatches(size):
                pass

    return run


def write_examples(path: str, count: int = 60_000) -> int:
    """Write examples of about 714 bytes each, tokens and a label; return their number."""
    rng = np.random.default_rng(0)
    tokens = (32_000 * rng.random((scaled(count), 312)) ** 2).astype(np.int64)
    return sh.tfrecord.write(
        path, ({"tokens": row, "label": int(row[0]) % 10} for row in tokens)
    )
