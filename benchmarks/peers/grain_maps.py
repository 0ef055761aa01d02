"""Grain over the same arrays, in its map pipeline. It counts sequences, not tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from benchmarks.suite.corpora import (
    ROW_LENGTH,
    ROW_MINIBATCH,
    TOKEN_BUDGET,
    make_rows,
    make_tokens,
)
from grain.python import MapDataset


class _Rows:
    def __init__(self) -> None:
        self._corpus = make_rows()

    def __len__(self) -> int:
        return len(self._corpus.labels)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        return self._corpus.rows[row], self._corpus.labels[row]


class _Sequences:
    def __init__(self) -> None:
        self._corpus = make_tokens()

    def __len__(self) -> int:
        return len(self._corpus.offsets) - 1

    def __getitem__(self, sequence: int) -> Any:
        begin, end = self._corpus.offsets[sequence : sequence + 2]
        return self._corpus.tokens[begin:end]


def rows() -> Iterator[int]:
    for _, labels in MapDataset.source(_Rows()).shuffle(seed=0).batch(ROW_MINIBATCH):
        yield len(labels)


def ragged() -> Iterator[int]:
    for values, _ in _batched(_join):
        yield len(values)


def padded() -> Iterator[int]:
    for _, mask in _batched(_pad):
        yield int(np.count_nonzero(mask))


def packed_rows() -> Iterator[int]:
    """First fit into 64 open rows; tokens, segments and positions are made for each."""
    from grain import experimental

    tokens, offsets = make_tokens()
    few = np.split(tokens[: offsets[5000]], offsets[1:5000])
    corpus = MapDataset.source([{"tokens": part} for part in few]).to_iter_dataset()
    while True:
        for row in experimental.FirstFitPackIterDataset(
            corpus,
            length_struct={"tokens": ROW_LENGTH},
            num_packing_bins=64,
            shuffle_bins=False,
        ):
            yield int(np.count_nonzero(row["tokens_segment_ids"]))


def _batched(join: Any) -> Any:
    count = int(TOKEN_BUDGET / make_tokens().lengths.mean())
    return MapDataset.source(_Sequences()).shuffle(seed=0).batch(count, batch_fn=join)


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
