"""torch's loaders over the same arrays, without worker processes, which cost more here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import torch
from benchmarks.suite.bench_loop import waits_of
from benchmarks.suite.bench_maps import (
    TOKENS,
    digest,
    hold,
    hold_long,
    make_texts,
    quick,
    tokenize,
)
from benchmarks.suite.corpora import ROW_MINIBATCH, TOKEN_BUDGET, make_rows, make_tokens
from benchmarks.suite.family import with_workers
from benchmarks.suite.turn import Steps
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


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
        self._tokens = torch.from_numpy(corpus.tokens)
        self._offsets = corpus.offsets.tolist()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitems__(self, picked: list[int]) -> list[torch.Tensor]:
        offsets = self._offsets
        return [self._tokens[offsets[s] : offsets[s + 1]] for s in picked]


class _MappedRows(Dataset[Any]):
    """Rows that a function has mapped."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._rows, self._labels = make_rows()
        self._function = function

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, at: int) -> Any:
        return self._function({"rows": self._rows[at], "labels": self._labels[at]})


torch.set_num_threads(1)  # two threads for one minibatch wait for each other


def batched_rows() -> Steps:
    """The fastest documented way: `__getitems__` takes the whole minibatch."""
    return _rows_of(DataLoader)


def stateful_rows() -> Steps:
    from torchdata.stateful_dataloader import StatefulDataLoader

    return _rows_of(StatefulDataLoader)


def quick_map() -> Steps:
    return _mapped(quick)


def held_map() -> Steps:
    return _in_workers(hold)


def quick_in_workers() -> Steps:
    return _in_workers(quick)


def digest_map() -> Steps:
    return _in_workers(digest)


def long_map() -> Steps:
    return _in_workers(hold_long)


class _Texts(Dataset[Any]):
    """Texts that are made tokens one by one."""

    def __len__(self) -> int:
        return len(make_texts())

    def __getitem__(self, at: int) -> torch.Tensor:
        return torch.from_numpy(tokenize({"text": [make_texts()[at].encode()]})["ids"])


def tokenized() -> Steps:
    """About as many tokens at a time, in an order that needs no lengths."""
    make_texts()
    loader = DataLoader(
        _Texts(),
        TOKENS // 400,
        shuffle=True,
        collate_fn=torch.cat,
        num_workers=2,
        persistent_workers=True,
    )
    return with_workers(len(ids) for _ in count() for ids in loader)


def _in_workers(function: Callable[[Any], Any]) -> Steps:
    return with_workers(_mapped(function, num_workers=2, persistent_workers=True))


def _mapped(function: Callable[[Any], Any], **options: Any) -> Steps:
    loader = DataLoader(_MappedRows(function), ROW_MINIBATCH, shuffle=True, **options)
    for _ in count():
        for found in loader:
            yield len(found["labels"])


def _rows_of(kind: Any) -> Steps:
    loader = kind(_BatchedRows(), batch_size=ROW_MINIBATCH, shuffle=True, collate_fn=_as_it_is)
    for _ in count():
        for _, labels in loader:
            yield len(labels)


def ragged() -> Steps:
    for values, _ in _within_budget(_join):
        yield len(values)


def padded() -> Steps:
    for _, mask in _within_budget(_pad):
        yield int(mask.sum())


def waits() -> Steps:
    return waits_of(_within_budget(_pad))


def waits_for_workers() -> Steps:
    """Minibatches that two processes prepare ahead; what they burn is not seen here."""
    return waits_of(_within_budget(_pad, num_workers=2, persistent_workers=True))


class _Budget:
    """As many shuffled sequences as fit."""

    def __init__(self) -> None:
        self._lengths = np.diff(make_tokens().offsets)

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(len(self._lengths)).numpy()
        batch: list[int] = []
        total = 0
        for sequence, size in zip(order.tolist(), self._lengths[order].tolist(), strict=True):
            if total + size > TOKEN_BUDGET:
                yield batch
                batch, total = [], 0
            batch.append(sequence)
            total += size
        yield batch


def _within_budget(collate: Callable[[Any], Any], **options: Any) -> Iterator[Any]:
    loader = DataLoader(
        _BatchedTokens(), batch_sampler=_Budget(), collate_fn=collate, **options
    )
    for _ in count():
        yield from loader


def _join(sequences: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = torch.tensor([len(sequence) for sequence in sequences])
    return torch.cat(sequences), torch.cumsum(sizes, 0)


def _pad(sequences: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = torch.tensor([len(sequence) for sequence in sequences])
    grid = pad_sequence(sequences, batch_first=True)
    return grid, torch.arange(grid.shape[1]) < sizes[:, None]


def _as_it_is(minibatch: Any) -> Any:
    return minibatch
