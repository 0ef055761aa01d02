"""torch's loader over the same JPEGs, with worker processes."""

from __future__ import annotations

import numpy as np
import torch
from benchmarks.suite.bench_images import MINIBATCH, THREADS, cropped, make_jpegs
from benchmarks.suite.turn import Steps
from torch.utils.data import DataLoader, Dataset


class _Pictures(Dataset[torch.Tensor]):
    """Pictures that are decoded, cropped and mirrored."""

    def __init__(self) -> None:
        self._jpegs = make_jpegs()
        self._rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self._jpegs)

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.from_numpy(cropped(self._jpegs[number], self._rng))


def cropped_pictures() -> Steps:
    loader = DataLoader(
        _Pictures(),
        MINIBATCH,
        shuffle=True,
        drop_last=True,
        num_workers=THREADS,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    while True:
        for minibatch in loader:
            yield len(minibatch)
