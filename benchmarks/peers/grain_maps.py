"""Grain over the same arrays, in its map pipeline. It counts sequences, not tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from benchmarks.suite.corpora import (
    MANY_SEQUENCES,
    ROW_LENGTH,
    ROW_MINIBATCH,
    TOKEN_BUDGET,
    make_offsets,
    make_rows,
    make_short_lengths,
    make_tokens,
)
from benchmarks.suite.limits import Array
from benchmarks.suite.turn import Clock, Steps
from grain.python import MapDataset, ReadOptions

INLINE = ReadOptions(num_threads=0, prefetch_buffer_size=0)  # threads of Python cost more


class _Rows:
    def __init__(self) -> None:
        self._corpus = make_rows()

    def __len__(self) -> int:
        return len(self._corpus.labels)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        return self._corpus.rows[row], self._corpus.labels[row]


class _Sequences:
    def __init__(self, tokens: Array, offsets: Array) -> None:
        self._tokens, self._offsets = tokens, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, sequence: int) -> Any:
        begin, end = self._offsets[sequence : sequence + 2]
        return self._tokens[begin:end]

    def batched(self, join: Callable[[Sequence[Any]], Any]) -> Any:
        count = max(1, int(TOKEN_BUDGET * len(self) / self._offsets[-1]))
        shuffled = MapDataset.source(self).shuffle(seed=0).repeat()
        return shuffled.batch(count, batch_fn=join).to_iter_dataset(INLINE)


def rows() -> Steps:
    shuffled = MapDataset.source(_Rows()).shuffle(seed=0).repeat().batch(ROW_MINIBATCH)
    for _, labels in shuffled.to_iter_dataset(INLINE):
        yield len(labels)


def ragged() -> Steps:
    for values, _ in _Sequences(*make_tokens()).batched(_join):
        yield len(values)


def padded() -> Steps:
    for _, mask in _Sequences(*make_tokens()).batched(_pad):
        yield int(np.count_nonzero(mask))


def packed_rows() -> Steps:
    """First fit into 64 open rows; tokens, segments and positions are made for each."""
    from grain import experimental

    tokens, offsets = make_tokens()
    few = np.split(tokens[: offsets[5000]], offsets[1:5000])
    corpus = MapDataset.source([{"tokens": part} for part in few]).shuffle(seed=0).repeat()
    for row in experimental.FirstFitPackIterDataset(
        corpus.to_iter_dataset(INLINE),
        length_struct={"tokens": ROW_LENGTH},
        num_packing_bins=64,
        shuffle_bins=False,
    ):
        yield int(np.count_nonzero(row["tokens_segment_ids"]))


def first_minibatch() -> Steps:
    offsets = make_offsets(make_short_lengths(MANY_SEQUENCES, 40))
    tokens = np.zeros(offsets[-1], np.uint8)
    yield 0
    next(iter(_Sequences(tokens, offsets).batched(_join)))
    yield 1


def resume() -> Steps:
    """A state is taken after some minibatches, and restored by a new pipeline."""
    tokens = make_tokens()
    iterator = iter(_Sequences(*tokens).batched(_join))
    next(iterator)
    state = iterator.get_state() | {"next_index": 2000}
    yield 0
    clock = Clock()
    with clock.running():
        iterator = iter(_Sequences(*tokens).batched(_join))
        iterator.set_state(state)
        next(iterator)
    yield clock.turn()


def _join(sequences: Sequence[Any]) -> tuple[Any, Any]:
    return np.concatenate(sequences), np.cumsum([len(sequence) for sequence in sequences])


def _pad(sequences: Sequence[Any]) -> tuple[Any, Any]:
    sizes = [len(sequence) for sequence in sequences]
    grid = np.zeros((len(sizes), max(sizes)), np.int32)
    mask = np.zeros(grid.shape, np.uint8)
    for row, sequence in enumerate(sequences):
        grid[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return grid, mask
