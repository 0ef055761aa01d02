"""Ranks are found when an iteration begins, and share every minibatch once."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
import torch.multiprocessing as mp
from tests.torch.launch import free_port
from torch.utils.data import DataLoader

import sweephand as sh
import sweephand.torch

ROWS = 25


def make_dataset(**options: Any) -> sh.torch.IterableDataset:
    source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(ROWS)}))
    return sh.torch.IterableDataset(source, 8, to_item=rows_of, **options)


def rows_of(minibatch: sh.Minibatch) -> list[int]:
    rows: list[int] = minibatch["x"].values.tolist()
    return rows


def run_rank(rank: int, port: int, found: Any, dataset: sh.torch.IterableDataset) -> None:
    """Iterate in every way with a dataset that was made before there was a group."""
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    seen = {"plain": list(DataLoader(dataset, batch_size=None))}
    for start in ("fork", "spawn"):
        loader = sh.torch.DataLoader(dataset, num_workers=1, multiprocessing_context=start)
        seen[start] = list(loader)
    loader = sh.torch.DataLoader(dataset)
    first = next(iter(loader))
    dataset.source.load_state_dict(loader.state_dict())
    seen["resumed"] = [first, *loader]
    with pytest.raises(RuntimeError, match="split minibatches that the ranks share already"):
        dataset.set_epoch(0)
    found.put((rank, seen))
    dist.barrier()
    dist.destroy_process_group()


def test_two_ranks_see_every_row_once_in_every_sweep() -> None:
    context = mp.get_context("spawn")
    found = context.Queue()
    running = mp.spawn(run_rank, (free_port(), found, make_dataset()), nprocs=2, join=False)
    seen = dict(found.get(timeout=600) for _ in range(2))
    while not running.join():
        pass
    for way in ("plain", "fork", "spawn", "resumed"):
        assert len(seen[0][way]) == len(seen[1][way]) == 4
        rows = [row for item in seen[0][way] + seen[1][way] for row in item]
        assert sorted(rows) == list(range(ROWS))
    assert len({str(seen[0][way]) for way in seen[0]}) == 4


@pytest.mark.parametrize("num_workers", [0, 1])
def test_several_processes_without_a_group_are_refused(
    num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = sh.torch.DataLoader(make_dataset(), num_workers=num_workers)
    with pytest.raises(RuntimeError, match=r"WORLD_SIZE is 2, but torch\.distributed is not"):
        next(iter(loader))
    with pytest.raises(RuntimeError, match="split minibatches"):
        loader.dataset.set_epoch(0)
    given = make_dataset(num_data_partitions=2, partition_index=1)
    assert sum(map(len, sh.torch.DataLoader(given, num_workers=num_workers))) == ROWS // 2


@pytest.mark.parametrize("world", ["", "1", "two"])
def test_one_process_needs_no_group(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", world)
    dataset = make_dataset()
    dataset.set_epoch(3)
    rows = [row for item in sh.torch.DataLoader(dataset) for row in item]
    assert sorted(rows) == list(range(ROWS))


def test_a_copy_of_a_dataset_finds_its_own_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = pickle.loads(pickle.dumps(make_dataset()))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="WORLD_SIZE is 2"):
        next(iter(copy))
