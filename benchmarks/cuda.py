"""Minibatches on a CUDA device: how fast they arrive there, and what a step waits for them.

    pip install "sweephand[torch]"
    python benchmarks/cuda.py

Pictures are (256, 224, 224, 3) of uint8, tokens are padded int32 with their mask. "One pinned
block" copies the same pinned memory again and again: nothing that chooses samples can be
faster. Turns are taken in order, five times; printed are the median and the whole spread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import sweephand as sh
import sweephand.torch

PICTURES, MINIBATCH = 4096, 256
SEQUENCES, BUDGET = 200_000, 65_536
TURNS, SECONDS = 5, 1.5
STEP = 5e-3  # seconds that the device computes in a step
Copies = Iterator[dict[str, torch.Tensor]]
rng = np.random.default_rng(0)


def make_pictures() -> dict[str, Any]:
    return {
        "pixels": rng.integers(0, 256, (PICTURES, 224, 224, 3), np.uint8),
        "label": rng.integers(0, 1000, PICTURES),
    }


def make_tokens() -> dict[str, Any]:
    lengths = np.clip(rng.lognormal(np.log(300), 0.6, SEQUENCES), 16, 2048).astype(int)
    return {"tokens": [np.arange(n, dtype=np.int32) for n in lengths]}


def ours(arrays: dict[str, Any], size: int, layout: sh.Layout, non_blocking: bool) -> Copies:
    with sh.MinibatchSource(sh.ArrayDeserializer(arrays), layout=layout) as source:
        for minibatch in source.minibatches(size):
            yield minibatch.torch("cuda", non_blocking)


def pinned(arrays: dict[str, Any], size: int, layout: sh.Layout) -> Copies:
    with sh.MinibatchSource(sh.ArrayDeserializer(arrays), layout=layout) as source:
        block = {k: t.pin_memory() for k, t in source.next_minibatch(size).torch().items()}
    while True:
        yield {name: tensor.to("cuda", non_blocking=True) for name, tensor in block.items()}


class Batches(Dataset[Any]):
    """Rows that come a minibatch at a time."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self._tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}

    def __len__(self) -> int:
        return len(self._tensors["label"])

    def __getitems__(self, picked: list[int]) -> dict[str, torch.Tensor]:
        chosen = torch.tensor(picked)
        return {name: tensor.index_select(0, chosen) for name, tensor in self._tensors.items()}


def as_it_is(item: Any) -> Any:
    return item


def torchs(arrays: dict[str, Any], size: int, num_workers: int) -> Copies:
    loader = DataLoader(
        Batches(arrays), size, True, num_workers=num_workers, pin_memory=True,
        collate_fn=as_it_is, drop_last=True, persistent_workers=num_workers > 0,
    )  # fmt: skip
    while True:
        for item in loader:
            yield {name: tensor.to("cuda", non_blocking=True) for name, tensor in item.items()}


def rate_of(copies: Copies) -> tuple[float, float]:
    """Return GB/s that arrive, by the clock and by the processor."""
    for _ in islice(copies, 5):
        pass
    torch.cuda.synchronize()
    begin, busy, num_bytes = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - begin < SECONDS:
        num_bytes += sum(tensor.nbytes for tensor in next(copies).values())
    torch.cuda.synchronize()
    wall, spent = time.perf_counter() - begin, time.process_time() - busy
    return num_bytes / wall / 1e9, num_bytes / spent / 1e9


def cycles_of(seconds: float) -> int:
    """Return the cycles that keep the device busy so long."""
    torch.cuda._sleep(10_000_000)  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin = time.perf_counter()
    torch.cuda._sleep(100_000_000)  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    return int(100_000_000 * seconds / (time.perf_counter() - begin))


def longer_of(copies: Copies, cycles: int, steps: int = 200) -> float:
    """Return by which part steps are longer than what the device computes in them."""
    for _ in islice(copies, 5):
        pass
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin.record()
    for _ in range(steps):
        next(copies)
        torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / (steps * STEP * 1e3) - 1


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("this needs a CUDA device")
    pictures, tokens = make_pictures(), make_tokens()
    ragged, padded = sh.Ragged(), sh.Padded()
    contenders: dict[str, dict[str, Callable[[], Copies]]] = {
        "pictures": {
            "one pinned block": lambda: pinned(pictures, MINIBATCH, ragged),
            "sweephand": lambda: ours(pictures, MINIBATCH, ragged, False),
            "sweephand, non_blocking": lambda: ours(pictures, MINIBATCH, ragged, True),
            "torch DataLoader": lambda: torchs(pictures, MINIBATCH, 0),
            "torch DataLoader, 4 workers": lambda: torchs(pictures, MINIBATCH, 4),
        },
        "tokens": {
            "one pinned block": lambda: pinned(tokens, BUDGET, padded),
            "sweephand": lambda: ours(tokens, BUDGET, padded, False),
            "sweephand, non_blocking": lambda: ours(tokens, BUDGET, padded, True),
        },
    }
    cycles = cycles_of(STEP)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; steps of 5 ms")
    for kind, makers in contenders.items():
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in makers}
        for _ in range(TURNS):
            for name, make in makers.items():
                found[name].append((*rate_of(make()), longer_of(make(), cycles)))
        for name, turns in found.items():
            middle, low, high = (f(turns, axis=0) for f in (np.median, np.min, np.max))
            print(
                f"{kind}, {name}: {middle[0]:.2f} GB/s ({low[0]:.2f} to {high[0]:.2f}), "
                f"{middle[1]:.2f} a processor second; steps longer by {middle[2]:.1%} "
                f"({low[2]:.1%} to {high[2]:.1%})",
                flush=True,
            )


if __name__ == "__main__":
    main()
