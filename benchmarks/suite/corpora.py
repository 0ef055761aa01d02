"""The corpora that contenders share; every process makes the same."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import sweephand as sh

from .limits import Order

ROW_MINIBATCH = 256
TOKEN_BUDGET = 16_384  # samples of a minibatch
MANY_SEQUENCES = 50_000_000
ROW_LENGTH, PACKED_ROWS = 2048, 16


def scaled(count: int) -> int:
    """Return a size of data: less of it where only whether a benchmark runs is asked."""
    return max(1, int(count * float(os.environ.get("SWEEPHAND_BENCHMARK_SCALE", "1"))))


class Rows(NamedTuple):
    """Fixed-size rows with a label each."""

    rows: NDArray[np.float32]
    labels: NDArray[np.int64]


class Tokens(NamedTuple):
    """Sequences of tokens, one behind the other, and where each begins."""

    tokens: NDArray[np.integer]
    offsets: NDArray[np.int64]


@cache
def make_rows() -> Rows:
    """Half a million rows of 64 float32 with a label."""
    count = scaled(500_000)
    rng = np.random.default_rng(0)
    return Rows(rng.random((count, 64), np.float32), rng.integers(0, 10, count))


def make_lengths(count: int = 200_000, seed: int = 0) -> NDArray[np.int64]:
    """Log-normal lengths with median 180 and sigma 1, clipped to [1, 2048]."""
    lengths = np.random.default_rng(seed).lognormal(np.log(180), 1, scaled(count))
    return np.clip(np.rint(lengths), 1, 2048).astype(np.int64)


def make_long_lengths(most: int) -> NDArray[np.int64]:
    """Log-normal lengths with median 600 and sigma 1; 3 % lie between 4,096 and most."""
    rng, count = np.random.default_rng(0), scaled(100_000)
    lengths = rng.lognormal(np.log(600), 1, count)
    tail = np.exp(rng.uniform(np.log(4096), np.log(most), count))
    lengths = np.where(rng.random(count) < 0.03, tail, lengths)
    return np.clip(np.rint(lengths), 1, most).astype(np.int64)


def make_offsets(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def make_short_lengths(count: int, most: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(1, most + 1, scaled(count), np.uint8)


def _with_tokens(lengths: NDArray[np.integer]) -> Tokens:
    offsets = make_offsets(lengths)
    return Tokens(np.random.default_rng(1).integers(0, 50_000, offsets[-1], np.int32), offsets)


@cache
def make_tokens() -> Tokens:
    """200,000 sequences of unequal lengths."""
    return _with_tokens(make_lengths())


@cache
def make_wide_tokens() -> Tokens:
    """Return the same as int64."""
    tokens, offsets = make_tokens()
    return Tokens(tokens.astype(np.int64), offsets)


@cache
def make_short_tokens() -> Tokens:
    """Four million sequences of one to four tokens."""
    return _with_tokens(make_short_lengths(4_000_000, 4))


def untouched(lengths: NDArray[np.integer], chunk_size: int | None = None) -> sh.Deserializer:
    """Return tokens that are never read, and so never in memory."""
    offsets = make_offsets(lengths)
    tokens = np.zeros(offsets[-1], np.uint8)
    return sh.ArrayDeserializer({"tokens": (tokens, offsets)}, chunk_size=chunk_size)


def order_of(corpus: dict[str, Any], size: int) -> Order:
    """Return what a source delivers in its first sweep."""
    source = sh.MinibatchSource(sh.ArrayDeserializer(corpus), max_sweeps=1)
    plans = [plan.sequences for plan in source.plan(size)]
    ends = np.cumsum([0, *(len(part) for part in plans)])
    return Order(np.concatenate(plans).astype(np.int64), ends.astype(np.int64))
