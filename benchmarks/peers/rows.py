"""Fixed-size rows, shuffled, 256 at a time, through the loaders that users have today.

    python -m benchmarks.peers.rows

Needs the extra `bench`; a peer that is not installed is named and left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from statistics import median
from typing import Any

from benchmarks.corpora import ROW_MINIBATCH, Rows, make_rows

import sweephand as sh


def ours(corpus: Rows) -> Iterator[object]:
    data = {"rows": corpus.rows, "labels": corpus.labels}
    with sh.MinibatchSource(sh.ArrayDeserializer(data), num_threads=2, prefetch=8) as source:
        for minibatch in source.minibatches(ROW_MINIBATCH):
            yield minibatch["rows"].values, minibatch["labels"].values


class _Rows:
    """A map-style data set."""

    def __init__(self, corpus: Rows) -> None:
        import torch

        self.rows = torch.from_numpy(corpus.rows)
        self.labels = torch.from_numpy(corpus.labels)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index], self.labels[index]


class _BatchedRows(_Rows):
    def __getitems__(self, indices: list[int]) -> Any:
        import torch

        picked = torch.tensor(indices)
        return self.rows.index_select(0, picked), self.labels.index_select(0, picked)


def _as_it_is(batch: Any) -> Any:
    return batch


def torch_loader(corpus: Rows) -> Iterator[object]:
    from torch.utils.data import DataLoader

    yield from DataLoader(_Rows(corpus), batch_size=ROW_MINIBATCH, shuffle=True)


def torch_loader_batched(corpus: Rows) -> Iterator[object]:
    from torch.utils.data import DataLoader

    yield from DataLoader(
        _BatchedRows(corpus), batch_size=ROW_MINIBATCH, shuffle=True, collate_fn=_as_it_is
    )


def stateful_loader(corpus: Rows) -> Iterator[object]:
    from torchdata.stateful_dataloader import StatefulDataLoader

    yield from StatefulDataLoader(_Rows(corpus), batch_size=ROW_MINIBATCH, shuffle=True)


def grain(corpus: Rows) -> Iterator[object]:
    import grain.python as grain_python

    class Source:
        def __len__(self) -> int:
            return len(corpus.rows)

        def __getitem__(self, index: int) -> Any:
            return {"rows": corpus.rows[index], "labels": corpus.labels[index]}

    data = grain_python.MapDataset.source(Source()).shuffle(seed=0)
    yield from data.batch(ROW_MINIBATCH)


PEERS: dict[str, tuple[str, Callable[[Rows], Iterator[object]]]] = {
    "sweephand": ("sweephand", ours),
    "torch DataLoader": ("torch", torch_loader),
    "torch DataLoader, batched __getitems__": ("torch", torch_loader_batched),
    "torchdata StatefulDataLoader": ("torchdata", stateful_loader),
    "Grain MapDataset": ("grain", grain),
}


def rows_per_second(corpus: Rows, peer: Callable[[Rows], Iterator[object]]) -> float:
    """Take minibatches for about a second, after a first one."""
    minibatches = peer(corpus)
    next(minibatches)
    begin = time.perf_counter()
    count = 0
    for _ in minibatches:
        count += ROW_MINIBATCH
        if time.perf_counter() - begin > 1:
            break
    return count / (time.perf_counter() - begin)


def main(repetitions: int = 3) -> None:
    corpus = make_rows()
    found: dict[str, list[float]] = {}
    for name, (module, _) in PEERS.items():
        if find_spec(module) is None:
            print(f"{name}: not installed, pip install 'sweephand[bench]'")
        else:
            found[name] = []
    for _ in range(repetitions):
        for name, rates in found.items():
            rates.append(rows_per_second(corpus, PEERS[name][1]))
    best = median(found["sweephand"])
    for name, rates in found.items():
        middle = median(rates)
        told = f"{middle / 1e6:.2f} M rows/s ({min(rates) / 1e6:.2f} - {max(rates) / 1e6:.2f})"
        print(f"{name:40} {told}   ours is {best / middle:.1f} x")


if __name__ == "__main__":
    main()
