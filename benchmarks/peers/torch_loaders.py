"""torch's loaders over the same arrays, without worker processes, which are slower here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from benchmarks.suite.corpora import ROW_MINIBATCH, TOKEN_BUDGET, make_rows, make_tokens
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, TensorDataset


class _BatchedRows(Dataset[Any]):
    """Rows that come a minibatch at a time."""

    def __init__(self) -> None:
        corpus = make_rows()
        self._rows = torch.from_numpy(corpus.rows)
        self._labels = torch.from_numpy(corpus.labels)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitems__(self, picked: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = torch.tensor(picked)
        return self._rows.index_select(0, chosen), self._labels.index_select(0, chosen)


class _BatchedTokens(Dataset[Any]):
    """Sequences that come a minibatch at a time, each as its own view."""

    def __init__(self) -> None:
        corpus = make_tokens()
        self._tokens = torch.from_numpy(corpus.tokens.view(np.int16))
        self._offsets = corpus.offsets.tolist()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitems__(self, picked: list[int]) -> list[torch.Tensor]:
        offsets = self._offsets
        return [self._tokens[offsets[s] : offsets[s + 1]] for s in picked]


def rows() -> Iterator[int]:
    """Item by item, with the default collate."""
    corpus = make_rows()
    data = TensorDataset(torch.from_numpy(corpus.rows), torch.from_numpy(corpus.labels))
    for _, labels in DataLoader(data, batch_size=ROW_MINIBATCH, shuffle=True):
        yield len(labels)


def batched_rows() -> Iterator[int]:
    """The fastest documented way: `__getitems__` takes the whole minibatch."""
    loader = DataLoader(
        _BatchedRows(), batch_size=ROW_MINIBATCH, shuffle=True, collate_fn=_as_it_is
    )
    for _, labels in loader:
        yield len(labels)


def stateful_rows() -> Iterator[int]:
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = _BatchedRows()
    loader = StatefulDataLoader(
        data, batch_size=ROW_MINIBATCH, shuffle=True, collate_fn=_as_it_is
    )
    for _, labels in loader:
        yield len(labels)


def ragged() -> Iterator[int]:
    for values, _ in _within_budget(_join):
        yield len(values)


def padded() -> Iterator[int]:
    for _, mask in _within_budget(_pad):
        yield int(mask.sum())


def _within_budget(collate: Callable[[Any], Any]) -> Iterator[Any]:
    """Minibatches of as many shuffled sequences as fit; cutting them is not measured."""
    corpus = make_tokens()
    order = np.random.default_rng(0).permutation(len(corpus.lengths))
    batches, total = [[]], 0
    for sequence, size in zip(order.tolist(), corpus.lengths[order].tolist(), strict=True):
        if total + size > TOKEN_BUDGET:
            batches.append([])
            total = 0
        batches[-1].append(sequence)
        total += size
    yield from DataLoader(_BatchedTokens(), batch_sampler=batches, collate_fn=collate)


def _join(sequences: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = torch.tensor([len(sequence) for sequence in sequences])
    return torch.cat(sequences), torch.cumsum(sizes, 0)


def _pad(sequences: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = torch.tensor([len(sequence) for sequence in sequences])
    grid = pad_sequence(sequences, batch_first=True).to(torch.int64)
    return grid, torch.arange(grid.shape[1]) < sizes[:, None]


def _as_it_is(minibatch: Any) -> Any:
    return minibatch
