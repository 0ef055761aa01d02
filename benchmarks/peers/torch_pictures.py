"""torch's loader over the same JPEGs, with worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from benchmarks.suite.bench_images import THREADS, cropped, make_jpegs, minibatch_size, resized
from benchmarks.suite.family import with_workers
from benchmarks.suite.turn import Steps
from torch.utils.data import DataLoader, Dataset


class _Pictures(Dataset[torch.Tensor]):
    """Pictures that are decoded, cropped and mirrored."""

    def __init__(self, change: Callable[..., np.ndarray[Any, Any]]) -> None:
        self._change = change
        self._jpegs = make_jpegs()
        self._rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self._jpegs)

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.from_numpy(self._change(self._jpegs[number], self._rng))


def cropped_pictures() -> Steps:
    return with_workers(_pictures(cropped))


def resized_pictures() -> Steps:
    return with_workers(_pictures(resized))


def _pictures(change: Callable[..., np.ndarray[Any, Any]]) -> Iterator[int]:
    loader = DataLoader(
        _Pictures(change),
        minibatch_size(),
        shuffle=True,
        drop_last=True,
        num_workers=THREADS,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    while True:
        for minibatch in loader:
            yield len(minibatch)
