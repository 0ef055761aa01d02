"""Grain over the same arrays, in its map pipeline. It counts sequences, not tokens.

Every function yields the samples of each minibatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from benchmarks.corpora import ROW_MINIBATCH, TOKEN_BUDGET, Rows, Tokens
from grain.python import MapDataset


class _Rows:
    def __init__(self, corpus: Rows) -> None:
        self._corpus = corpus

    def __len__(self) -> int:
        return len(self._corpus.labels)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        return self._corpus.rows[row], self._corpus.labels[row]


class _Sequences:
    def __init__(self, corpus: Tokens) -> None:
        self._corpus = corpus

    def __len__(self) -> int:
        return len(self._corpus.offsets) - 1

    def __getitem__(self, sequence: int) -> Any:
        begin, end = self._corpus.offsets[sequence : sequence + 2]
        return self._corpus.tokens[begin:end]


def rows(corpus: Rows) -> Iterator[int]:
    for _, labels in MapDataset.source(_Rows(corpus)).shuffle(seed=0).batch(ROW_MINIBATCH):
        yield len(labels)


def ragged(corpus: Tokens) -> Iterator[int]:
    for values, _ in _batched(corpus, _join):
        yield len(values)


def padded(corpus: Tokens) -> Iterator[int]:
    for _, mask in _batched(corpus, _pad):
        yield int(np.count_nonzero(mask))


def _batched(corpus: Tokens, join: Any) -> Any:
    count = int(TOKEN_BUDGET / corpus.lengths.mean())
    return MapDataset.source(_Sequences(corpus)).shuffle(seed=0).batch(count, batch_fn=join)


def _join(sequences: Sequence[Any]) -> tuple[Any, Any]:
    return np.concatenate(sequences), np.cumsum([len(sequence) for sequence in sequences])


def _pad(sequences: Sequence[Any]) -> tuple[Any, Any]:
    sizes = [len(sequence) for sequence in sequences]
    grid = np.zeros((len(sizes), max(sizes)), np.int64)
    mask = np.zeros(grid.shape, np.uint8)
    for row, sequence in enumerate(sequences):
        grid[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return grid, mask
