"""What a function of the user returns is its caller's, also where it uses a buffer again."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import sweephand as sh

SIZE, COUNT = 3, 60
ROWS = np.arange(COUNT * SIZE, dtype=np.float64).reshape(COUNT, SIZE)
WANTED = {f"{name}": row.tolist() for name, row in zip(range(COUNT), ROWS + 1, strict=True)}


class Reusing(threading.local):
    """A map that adds 1 and returns what it will use again, in each thread its own."""

    def __init__(self, how: str) -> None:
        self.how, self.__name__ = how, "reusing"
        self.array, self.odd = np.zeros((2, SIZE)), np.zeros(SIZE, np.float32)
        self.texts = np.empty(1, object)
        self.listed: list[Any] = []
        self.same: dict[str, Any] = {}
        self.sparse = csr_matrix(np.ones((1, SIZE)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Reusing, (self.how,)

    def __call__(self, sequence: Mapping[str, Any]) -> Any:
        return getattr(self, self.how)(sequence["x"])

    def buffer(self, x: Any) -> Any:
        self.array[0] = x + 1
        return {"x": self.array[0]}

    def other_type(self, x: Any) -> Any:
        self.odd[:] = x + 1
        return {"x": x + 1 if x[0] == 0 else self.odd}

    def list_of_numbers(self, x: Any) -> Any:
        self.listed[:] = (x + 1).tolist()
        return {"x": self.listed}

    def same_dict(self, x: Any) -> Any:
        self.same["x"] = x + 1
        return self.same

    def text(self, x: Any) -> Any:
        self.texts[0] = repr((x + 1).tolist()).encode()
        return {"x": self.texts}

    def sparse_row(self, x: Any) -> Any:
        self.sparse.data[:] = x + 1
        return {"x": self.sparse}

    def several_of_one(self, x: Any) -> Any:
        self.array[0] = x + 1
        self.listed[:] = [{"x": self.array[0]}]
        return self.listed


KINDS = [name for name in vars(Reusing) if not name.startswith("_")]


def plain(row: Any) -> list[float]:
    if isinstance(row, csr_matrix):
        row = row.toarray()
    if row.dtype == object:
        row = eval(row[0])
    found: list[float] = np.ravel(row).tolist()
    return found


def served(corpus: sh.Deserializer, size: int = 100, **options: Any) -> dict[str, list[float]]:
    with sh.MinibatchSource(corpus, max_sweeps=1, **options) as source:
        held = [(mb.ids, mb["x"].as_sequences()) for mb in source.minibatches(size)]
    return {
        name.rpartition("__")[2].partition("#")[0]: plain(row)
        for ids, rows in held
        for name, row in zip(ids, rows, strict=True)
    }


def stored() -> sh.Deserializer:
    return sh.ArrayDeserializer({"x": list(ROWS)}, chunk_size=7)


WORKERS = [
    {"num_map_workers": 0, "num_threads": 0},
    {"num_map_workers": 2},
    {"num_map_workers": 2, "map_executor": "processes"},
]


@pytest.mark.parametrize("workers", WORKERS, ids=repr)
def test_a_map_that_uses_a_buffer_again_gives_what_it_made(workers: dict[str, Any]) -> None:
    assert len(KINDS) == 7
    for kind in KINDS[:: 3 if "map_executor" in workers else 1]:
        is_alike = kind in ("buffer", "other_type", "list_of_numbers", "same_dict")
        mapped = stored().map(Reusing(kind), size="same" if is_alike else "measured")
        assert served(mapped, **workers) == WANTED, kind


@pytest.mark.parametrize("size", [1, COUNT])
def test_a_batched_map_that_uses_a_buffer_again_gives_what_it_made(size: int) -> None:
    even, odd = np.zeros((COUNT, SIZE)), np.zeros((COUNT, SIZE), np.float32)

    def batched(lists: Mapping[str, Any]) -> Any:
        several = np.array(lists["x"])
        into = odd if several[0, 0] % 2 else even  # the quick way, and the slow one
        into[: len(several)] = several + 1
        if (several[:, 0] == 30 * SIZE).any() and len(several) > 1:
            raise ValueError("not in a batch")  # each is then mapped by itself
        return {"x": list(into[: len(several)])}

    mapped = stored().map(batched, batched=True)
    assert served(mapped, size * SIZE, num_map_workers=0, num_threads=0) == WANTED


class Items:
    """A dataset that hands out its buffers again and again."""

    def __init__(self) -> None:
        self.rows = np.zeros((COUNT, SIZE))

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> Any:
        self.rows[0] = ROWS[number] + 1
        return {"x": self.rows[0]}


class Several(Items):
    def __getitems__(self, numbers: list[int]) -> Any:
        self.rows[: len(numbers)] = ROWS[numbers] + 1
        return [{"x": row} for row in self.rows[: len(numbers)]]


@pytest.mark.parametrize("dataset", [Items, Several])
def test_a_dataset_that_uses_a_buffer_again_is_served_as_it_was(dataset: Any) -> None:
    corpus = sh.MapDeserializer(dataset(), sh.StreamDefs(x=sh.StreamDef(shape=(SIZE,))))
    for size in (1, 7):  # items that are asked for one by one, and several at once
        assert served(corpus, size, num_threads=size % 2) == WANTED


class Chunks(sh.UserDeserializer):
    """Chunks of ten sequences in a buffer that is used again."""

    buffer = np.zeros((10, SIZE))

    def stream_infos(self) -> Any:
        return ["x"]

    def num_chunks(self) -> int:
        return COUNT // 10

    def sequence_lengths(self, chunk_id: int) -> Any:
        return np.full(10, SIZE)

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        self.buffer[:] = ROWS[10 * chunk_id : 10 * chunk_id + 10] + 1
        return {"x": list(self.buffer)}


def test_chunks_in_a_buffer_that_is_used_again_are_served_as_they_were() -> None:
    found = served(Chunks(), num_threads=2)
    assert sorted(found.values()) == sorted(WANTED.values())


def test_a_transform_that_uses_a_buffer_again_changes_no_minibatch_that_is_held() -> None:
    buffer = np.zeros((10, SIZE))
    adds = sh.StreamDef(transforms=(lambda values: np.add(values, 1, out=buffer),))
    corpus = sh.ArrayDeserializer({"x": ROWS}, sh.StreamDefs(x=adds))
    with sh.MinibatchSource(corpus, randomize=False) as source:
        held = [mb["x"].values for mb in islice(source.minibatches(10), COUNT // 10)]
    assert np.array_equal(np.concatenate(held), ROWS + 1)
