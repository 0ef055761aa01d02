"""What two ranks do in test_torchtitan.py and test_megatron.py, and what stands for both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from tests.torch.ranks import begin
from torch.distributed.checkpoint.stateful import Stateful

import sweephand as sh
import sweephand.torch
from sweephand.ext.integrations.megatron import DataIterator, Place, get_batch

ROW = 16
STEPS, SAVED_AT = 5, 3


def make_source(**options: Any) -> sh.MinibatchSource:
    """Make rows of sequences, of which some are cut."""
    draw = np.random.default_rng(4)
    lengths = draw.integers(1, ROW + 6, 40)
    walks = [draw.integers(1, 1000, length).astype(np.uint16) for length in lengths]
    layout = sh.Packed(ROW, split_long="split")
    corpus = sh.ArrayDeserializer({"tokens": walks})
    return sh.MinibatchSource(
        corpus, layout=layout, randomization_seed=2, num_threads=0, **options
    )


# -- torchtitan --
class BaseDataLoader(Stateful, ABC):
    """Stands for torchtitan's class, which makes loaders from their configurations."""

    @dataclass(kw_only=True, slots=True)
    class Config:
        owner: ClassVar[type]

        def build(self, **runtime: Any) -> Any:
            return self.owner(self, **runtime)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.Config.owner = cls

    @abstractmethod
    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]: ...


class Loader(sh.torch.torchtitan.DataLoader, BaseDataLoader):
    """What a user of torchtitan writes."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        max_sweeps: int | None = None
        num_workers: int = 0

    def __init__(self, config: Config, **runtime: Any) -> None:
        limits = {} if config.max_sweeps is None else {"max_sweeps": config.max_sweeps}
        super().__init__(make_source(**limits), num_workers=config.num_workers, **runtime)


def build(ranks: int, rank: int, rows: int, **options: Any) -> Loader:
    """Build a loader as torchtitan's trainer does."""
    return Loader.Config(**options).build(
        dp_world_size=ranks,
        dp_rank=rank,
        tokenizer=None,
        seq_len=ROW,
        local_batch_size=rows,
        snapshot_every_n_steps=1,
    )


def rows_of(item: tuple[dict[str, torch.Tensor], torch.Tensor]) -> list[list[list[int]]]:
    """Return tokens, positions and labels of each row."""
    inputs, labels = item
    both = inputs["input"], inputs["positions"], labels
    return [[part[row].tolist() for part in both] for row in range(len(labels))]


def titan(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    """Take items as torchtitan's trainer does, and save where one has got to."""
    begin()
    loader = build(num_ranks, rank, 4)
    items, found = iter(loader), []
    for step in range(STEPS):
        if step == SAVED_AT:
            dcp.save({"dataloader": loader}, checkpoint_id=folder / "titan")
        found.append(rows_of(next(items)))
    finite = [rows_of(item) for item in build(num_ranks, rank, 3, max_sweeps=1)]
    return {"items": found, "state": loader.state_dict(), "finite": finite}


# -- Megatron --
@dataclass(frozen=True)
class ParallelState:
    """Stands for ``megatron.core.parallel_state``: who of how many in one way, alone else."""

    way: str
    count: int
    index: int

    def _of(self, way: str) -> tuple[int, int]:
        return (self.count, self.index) if way == self.way else (1, 0)

    def get_data_parallel_world_size(self) -> int:
        return self._of("dp")[0]

    def get_data_parallel_rank(self) -> int:
        return self._of("dp")[1]

    def get_context_parallel_world_size(self) -> int:
        return self._of("cp")[0]

    def get_context_parallel_rank(self) -> int:
        return self._of("cp")[1]

    def is_pipeline_first_stage(self, ignore_virtual: bool, vp_stage: int | None) -> bool:
        return self._of("pp")[1] == 0

    def is_pipeline_last_stage(self, ignore_virtual: bool, vp_stage: int | None) -> bool:
        count, index = self._of("pp")
        return index == count - 1


def batches(place: Place, steps: int, documents: Any, rows: int = 2) -> list[dict[str, Any]]:
    """Return what forward steps get, and the state after them."""
    iterator = DataIterator(make_source(), rows, place, documents=documents)
    found = []
    for _ in range(steps):
        batch = get_batch(iterator, place=place)
        told = zip(sh.torch.megatron.BATCH_KEYS, batch, strict=True)
        found.append({key: None if one is None else one.tolist() for key, one in told})
    return [*found, {"state": iterator.state_dict()}]


def megatron(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    """Get batches in every way in which two ranks may share the work."""
    begin()
    assert dist.get_world_size() == num_ranks
    return {
        f"{way} {documents}": batches(
            Place.of(ParallelState(way, num_ranks, rank)), 3, documents
        )
        for way in ("dp", "cp", "pp", "tp")
        for documents in ("cu_seqlens", "attention_mask", None)
    }
