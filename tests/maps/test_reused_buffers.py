"""What a function of the user returns is its caller's, also where it uses a buffer again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import sweephand as sh

SIZE, COUNT = 3, 60
ROWS = np.arange(COUNT * SIZE, dtype=np.float64).reshape(COUNT, SIZE)
WANTED = {f"{name}": row.tolist() for name, row in zip(range(COUNT), ROWS + 1, strict=True)}


class Buffers(threading.local):
    """Buffers of a thread: two threads that write into one are wrong in any library."""

    def __init__(self) -> None:
        self.array = np.zeros((2, SIZE))
        self.odd = np.zeros((2, SIZE), np.float32)
        self.listed: list[float] = []
        self.texts = np.empty((SIZE,), object)
        self.same: dict[str, Any] = {}
        self.several: list[dict[str, Any]] = []
        self.kept: Any = None


class Reusing:
    """A map that adds 1 and returns what it will use again."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.__name__ = "reusing"
        self._begin()

    def _begin(self) -> None:
        self.own = Buffers()

    def __getstate__(self) -> str:
        return self.how

    def __setstate__(self, how: str) -> None:
        self.how = how
        self._begin()

    def __call__(self, sequence: Mapping[str, Any]) -> Any:
        return getattr(self, self.how)(sequence["x"], self.own)

    def buffer(self, x: Any, own: Buffers) -> Any:
        own.array[0] = x + 1
        return {"x": own.array[0]}

    def view_of_it(self, x: Any, own: Buffers) -> Any:
        own.array[:, ::-1] = x + 1
        return {"x": own.array[1, ::-1]}

    def other_type(self, x: Any, own: Buffers) -> Any:
        if x[0] == 0:
            return {"x": x + 1}
        own.odd[0] = x + 1
        return {"x": own.odd[0]}

    def list_of_numbers(self, x: Any, own: Buffers) -> Any:
        own.listed[:] = (x + 1).tolist()
        return {"x": own.listed}

    def same_dict(self, x: Any, own: Buffers) -> Any:
        own.same["x"] = x + 1
        return own.same

    def memory(self, x: Any, own: Buffers) -> Any:
        own.array[0] = x + 1
        return {"x": memoryview(own.array[0])}

    def first_input(self, x: Any, own: Buffers) -> Any:
        if own.kept is None:
            own.kept = x
        own.kept[:] = x + 1
        return {"x": own.kept}

    def view_of_input(self, x: Any, own: Buffers) -> Any:
        if own.kept is None:
            own.kept = x[:]
        np.add(x, 1, out=own.kept)
        return {"x": x if np.shares_memory(x, own.kept) else own.kept[:]}

    def several_of_one(self, x: Any, own: Buffers) -> Any:
        own.array[0] = x + 1
        own.several[:] = [{"x": own.array[0]}]
        return own.several


KINDS = [one for one in vars(Reusing) if not one.startswith("_")]


def served(corpus: sh.Deserializer, **options: Any) -> dict[str, list[float]]:
    with sh.MinibatchSource(corpus, max_sweeps=1, **options) as source:
        return {
            name.rpartition("__")[2].partition("#")[0]: np.ravel(row).tolist()
            for minibatch in source.minibatches(100)
            for name, row in zip(minibatch.ids, minibatch["x"].as_sequences(), strict=True)
        }


def stored() -> sh.Deserializer:
    return sh.ArrayDeserializer({"x": list(ROWS)}, chunk_size=7)


WORKERS = [
    {"num_map_workers": 0, "num_threads": 0},
    {"num_map_workers": 1},
    {"num_map_workers": 2},
    {"num_map_workers": 2, "map_executor": "processes"},
]


@pytest.mark.parametrize("workers", WORKERS, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_a_map_that_uses_a_buffer_again_gives_what_it_made(
    kind: str, workers: dict[str, Any]
) -> None:
    size = "measured" if kind == "several_of_one" else "same"
    assert served(stored().map(Reusing(kind), size=size), **workers) == WANTED


def reused_texts(buffer: Any = np.empty(1, object)) -> Callable[[Any], Any]:  # noqa: B008
    def call(sequence: Mapping[str, Any]) -> Any:
        buffer[0] = sequence["x"][0] + b"!"
        return {"x": buffer}

    return call


def test_texts_and_sparse_rows_that_are_used_again_are_those_that_were_made() -> None:
    texts = [f"{number}".encode() for number in range(COUNT)]
    corpus = sh.ArrayDeserializer({"x": texts}, chunk_size=7).map(reused_texts(), name="t")
    with sh.MinibatchSource(corpus, max_sweeps=1, num_threads=0) as source:
        found = [one for mb in source.minibatches(100) for one in mb["x"].values]
    assert sorted(found) == sorted(one + b"!" for one in texts)
    buffer = csr_matrix(np.ones((1, SIZE)))

    def sparse(sequence: Mapping[str, Any]) -> Any:
        buffer.data[:] = sequence["x"] + 1
        return {"x": buffer}

    with sh.MinibatchSource(
        sh.ArrayDeserializer({"x": ROWS}).map(sparse), randomize=False, num_threads=0
    ) as source:
        assert np.array_equal(source.next_minibatch(COUNT)["x"].values.toarray(), ROWS + 1)


@pytest.mark.parametrize("size", [1, 4, COUNT])
def test_a_batched_map_that_uses_a_buffer_again_gives_what_it_made(size: int) -> None:
    even, odd = np.zeros((COUNT, SIZE)), np.zeros((COUNT, SIZE), np.float32)

    def batched(lists: Mapping[str, Any]) -> Any:
        several = np.array(lists["x"])
        into = odd if several[0, 0] % 2 else even  # the quick way, and the slow one
        into[: len(several)] = several + 1
        if (several[:, 0] == 30 * SIZE).any() and len(several) > 1:
            raise ValueError("not in a batch")  # each is then mapped by itself
        return {"x": list(into[: len(several)])}

    with sh.MinibatchSource(
        stored().map(batched, batched=True), max_sweeps=1, num_map_workers=0, num_threads=0
    ) as source:
        held = [mb["x"].as_sequences() for mb in source.minibatches(size * SIZE)]
    assert sorted(np.ravel(row).tolist() for rows in held for row in rows) == (
        sorted(WANTED.values())
    )


class Items:
    """A dataset that hands out its buffers again and again."""

    def __init__(self, how: str) -> None:
        self.how, self.buffer, self.same = how, np.zeros(SIZE), {"x": np.zeros(SIZE)}
        if how in ("several", "iterator"):
            self.__class__ = Several

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> Any:
        into = self.same["x"] if self.how == "same_dict" else self.buffer
        into[:] = ROWS[number] + 1
        if self.how == "same_dict":
            return self.same
        if self.how == "tuple":
            return (into,)
        return {"x": into[:] if self.how == "view" else into}


class Several(Items):
    def __getitems__(self, numbers: list[int]) -> Any:
        if self.how == "iterator":
            return self._one_by_one(numbers)
        self.rows = getattr(self, "rows", np.zeros((COUNT, SIZE)))
        self.rows[: len(numbers)] = ROWS[numbers] + 1
        return [{"x": row} for row in self.rows[: len(numbers)]]

    def _one_by_one(self, numbers: list[int]) -> Iterator[Any]:
        return ({"x": self[number]["x"]} for number in numbers)


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("how", ["buffer", "view", "same_dict", "tuple", "several", "iterator"])
def test_a_dataset_that_uses_a_buffer_again_is_served_as_it_was(how: str, threads: int) -> None:
    streams = sh.StreamDefs(x=sh.StreamDef(shape=(SIZE,)))
    corpus = sh.MapDeserializer(Items(how), streams)
    for size in (1, 7):  # items that are asked for one by one, and several at once
        found = {}
        with sh.MinibatchSource(corpus, max_sweeps=1, num_threads=threads) as source:
            for minibatch in source.minibatches(size):
                rows = minibatch["x"].values
                found |= {
                    name.rpartition("__")[2]: row.tolist()
                    for name, row in zip(minibatch.ids, rows, strict=True)
                }
        assert found == WANTED


class Chunks(sh.UserDeserializer):
    """Chunks of ten sequences in a buffer that is used again."""

    def __init__(self, how: str) -> None:
        self.how, self.buffer, self.lengths = how, np.zeros((10, SIZE)), np.zeros(10, np.int64)
        self.offsets = np.arange(0, 10 * SIZE + 1, SIZE)
        self.listed: list[Any] = []

    def stream_infos(self) -> Any:
        return ["x"]

    def num_chunks(self) -> int:
        return COUNT // 10

    def sequence_lengths(self, chunk_id: int) -> Any:
        self.lengths[:] = SIZE
        return self.lengths

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        self.lengths[:] = -1
        self.buffer[:] = ROWS[10 * chunk_id : 10 * chunk_id + 10] + 1
        if self.how == "list":
            self.listed[:] = list(self.buffer)
            return {"x": self.listed}
        return {"x": (np.ravel(self.buffer), self.offsets)}


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("how", ["list", "offsets"])
def test_chunks_in_a_buffer_that_is_used_again_are_served_as_they_were(
    how: str, threads: int
) -> None:
    found = served(Chunks(how), num_threads=threads)
    assert sorted(found.values()) == sorted(WANTED.values())


def test_a_transform_that_uses_a_buffer_again_changes_no_minibatch_that_is_held() -> None:
    buffer = np.zeros((10, SIZE))

    def transform(values: Any) -> Any:
        return np.add(values, 1, out=buffer)

    streams = sh.StreamDefs(x=sh.StreamDef(transforms=(transform,)))
    corpus = sh.ArrayDeserializer({"x": ROWS}, streams)
    with sh.MinibatchSource(corpus, randomize=False) as source:
        held = [mb["x"].values for mb in islice(source.minibatches(10), COUNT // 10)]
    assert np.array_equal(np.concatenate(held), ROWS + 1)


def test_what_a_function_made_for_its_caller_is_not_copied() -> None:
    made = []

    def transform(values: Any) -> Any:
        new = values + 1
        made.append(new.__array_interface__["data"][0])
        return new

    streams = sh.StreamDefs(x=sh.StreamDef(transforms=(transform,)))
    with sh.MinibatchSource(sh.ArrayDeserializer({"x": ROWS}, streams)) as source:
        values = source.next_minibatch(10)["x"].values
    assert values.__array_interface__["data"][0] == made[0]
