"""A source inside torch's loaders: nothing lost, nothing repeated, in order."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sweephand as sh
import sweephand.torch

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]


def source(**options: Any) -> sh.MinibatchSource:
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    corpus = sh.ArrayDeserializer({"x": (np.arange(offsets[-1]), offsets)})
    return sh.MinibatchSource(corpus, **({"max_sweeps": 3} | options))


def everything(
    served: sh.MinibatchSource, size: int = 16, **options: Any
) -> sh.torch.IterableDataset:
    """Iterate to the end of the data at once."""
    return sh.torch.IterableDataset(served, size, samples_per_iteration=None, **options)


def expected(size: int, **options: Any) -> list[list[int]]:
    return [minibatch["x"].values.tolist() for minibatch in source(**options).minibatches(size)]


def values(item: dict[str, torch.Tensor]) -> list[int]:
    return item["x"].tolist()


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize(
    ("num_workers", "context"),
    [
        *((0, "fork"), (1, "fork"), (2, "fork"), (4, "fork"), (1, "spawn")),
        *(pytest.param(n, "spawn", marks=pytest.mark.exhaustive) for n in (2, 4)),
    ],
)
def test_a_loader_delivers_every_minibatch_in_order(num_workers: int, context: str) -> None:
    loader = sh.torch.DataLoader(
        everything(source()),
        num_workers=num_workers,
        multiprocessing_context=context if num_workers else None,
    )
    assert [values(item) for item in loader] == expected(16)


def test_a_loader_that_forks_a_source_in_use_goes_on_from_there() -> None:
    used = source()
    first = [used.next_minibatch(16)["x"].values.tolist() for _ in range(3)]
    dataset = everything(used)
    loader = sh.torch.DataLoader(dataset, num_workers=2, multiprocessing_context="fork")
    assert first + [values(item) for item in loader] == expected(16)


def test_ranks_share_every_minibatch() -> None:
    shares = [
        [
            values(item)
            for item in sh.torch.DataLoader(
                everything(source(), num_data_partitions=2, partition_index=rank),
            )
        ]
        for rank in range(2)
    ]
    whole = expected(16)
    assert len(shares[0]) == len(shares[1]) == len(whole)
    for one, two, both in zip(*shares, whole, strict=True):
        assert sorted(one + two) == sorted(both)


def test_bfloat16_becomes_a_tensor_of_it() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1.0, -2.5, 3.0], dtype=ml_dtypes.bfloat16)
    tensor = sh.torch.to_tensor(array)
    assert tensor.dtype == torch.bfloat16
    assert tensor.tolist() == [1.0, -2.5, 3.0]
    assert tensor.data_ptr() == array.ctypes.data


def npy_source(folder: Path) -> sh.MinibatchSource:
    np.save(folder / "x.npy", np.arange(20))
    return sh.MinibatchSource(sh.NpyDeserializer({"x": folder / "x.npy"}), max_sweeps=1)


def array_source(folder: Path) -> sh.MinibatchSource:
    return source()


@pytest.mark.parametrize("make", [npy_source, array_source])
def test_a_source_travels_by_pickle_with_its_place(
    make: Callable[[Path], sh.MinibatchSource], tmp_path: Path
) -> None:
    here = make(tmp_path)
    here.next_minibatch(7)
    there = pickle.loads(pickle.dumps(here))
    rest = [minibatch["x"].values.tolist() for minibatch in here.minibatches(5)]
    assert [minibatch["x"].values.tolist() for minibatch in there.minibatches(5)] == rest


def test_half_of_a_partition_is_refused() -> None:
    with pytest.raises(ValueError, match="or neither"):
        sh.torch.IterableDataset(source(), 16, num_data_partitions=2)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_packed_rows_come_with_segments_and_positions(num_workers: int) -> None:
    made = source(layout=sh.Packed(12), num_lanes=2, max_sweeps=2)
    loader = sh.torch.DataLoader(everything(made, 24), num_workers=num_workers)
    again = source(layout=sh.Packed(12), num_lanes=2, max_sweeps=2)
    for item, minibatch in zip(loader, again.minibatches(24), strict=True):
        assert np.array_equal(item["x"], minibatch["x"].asarray())
        assert np.array_equal(item["segment_ids"], minibatch.segment_ids)
        assert np.array_equal(item["position_ids"], minibatch.position_ids)
