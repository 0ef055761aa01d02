"""The corpora that all benchmarks share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROW_MINIBATCH = 256
TOKEN_BUDGET = 16_384


@dataclass(frozen=True)
class Rows:
    """Fixed-size rows with a label each."""

    rows: NDArray[np.float32]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Tokens:
    """Sequences of tokens, one behind the other, and where each begins."""

    tokens: NDArray[np.uint16]
    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)


def make_rows(count: int = 1_000_000, width: int = 64) -> Rows:
    rng = np.random.default_rng(0)
    return Rows(rng.random((count, width), np.float32), rng.integers(0, 10, count))


def make_lengths(count: int = 200_000, seed: int = 0) -> NDArray[np.int64]:
    """Log-normal lengths with median 180 and sigma 1, clipped to [1, 2048]."""
    lengths = np.random.default_rng(seed).lognormal(np.log(180), 1, count)
    return np.clip(np.rint(lengths), 1, 2048).astype(np.int64)


def make_offsets(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def make_tokens(count: int = 200_000) -> Tokens:
    offsets = make_offsets(make_lengths(count))
    tokens = np.random.default_rng(1).integers(0, 50_000, offsets[-1], np.uint16)
    return Tokens(tokens, offsets)
