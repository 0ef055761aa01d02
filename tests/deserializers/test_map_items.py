"""Items of map-style datasets: pictures are one sample, tuples have names, threads help."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import sweephand as sh

PICTURES = [np.full((3, 4, 5), n, np.uint8) for n in range(10)]


def first(corpus: sh.Deserializer, size: int = 8) -> sh.Minibatch:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        return source.next_minibatch(size)


def items(shape: tuple[int, ...], count: int = 10) -> list[dict[str, Any]]:
    return [{"x": np.full(shape, n, np.uint8), "y": n} for n in range(count)]


@pytest.mark.parametrize("shape", [(3, 4, 5), (4, 5, 3), (1, 6, 6), (6, 6, 4)])
def test_pictures_of_one_shape_are_one_sample_each(shape: tuple[int, ...]) -> None:
    minibatch = first(sh.MapDeserializer(items(shape)))
    assert minibatch["x"].values.shape == (8, *shape)
    assert minibatch["y"].values.tolist() == list(range(8))


def test_pictures_of_pillow_are_one_sample_each() -> None:
    image = pytest.importorskip("PIL.Image")
    rows = [(image.new("L", (6, 5), n), n) for n in range(10)]
    minibatch = first(sh.MapDeserializer(rows))
    assert minibatch["x"].values.shape == (8, 5, 6)
    assert minibatch["x"].values[:, 0, 0].tolist() == list(range(8))
    pictures = sh.ArrayDeserializer({"x": [picture for picture, _ in rows]})
    assert first(pictures)["x"].values.shape == (8, 5, 6)


def test_pictures_are_one_sample_each_or_sequences_of_a_declared_shape() -> None:
    arrays = {"x": PICTURES, "y": np.arange(10)}
    assert first(sh.ArrayDeserializer(arrays))["x"].values.shape == (8, 3, 4, 5)
    declared = sh.ArrayDeserializer(
        {"x": [one[:, :, 0] for one in PICTURES]}, {"x": sh.StreamDef(shape=(3, 4))}
    )
    assert first(declared)["x"].values.shape == (8, 3, 4)
    rows = {"x": sh.StreamDef(shape=(4, 5))}
    items_of_rows = sh.MapDeserializer(items((3, 4, 5)), rows)
    for corpus in (items_of_rows, sh.ArrayDeserializer({"x": PICTURES}, rows)):
        with sh.MinibatchSource(corpus) as source:
            assert source.num_samples_per_sweep == 30
            assert source.streams.x.shape == (4, 5)


def test_what_differs_in_length_stays_a_sequence() -> None:
    films = [{"x": np.zeros((n + 1, 4, 3), np.uint8)} for n in range(4)]
    with pytest.warns(UserWarning, match=r"is a sequence of 1 samples"):
        corpus = sh.MapDeserializer(films)
    with sh.MinibatchSource(corpus) as source:
        assert source.num_samples_per_sweep == 10
    lists = sh.ArrayDeserializer({"x": [one["x"] for one in films]})
    with sh.MinibatchSource(lists) as source:
        assert source.num_samples_per_sweep == 10


def test_a_later_picture_of_another_shape_is_told() -> None:
    rows = [*items((3, 4, 5)), {"x": np.zeros((3, 4, 6), np.uint8), "y": 0}]
    with pytest.raises(
        sh.DataError, match=r"samples of shape \(3, 4, 5\) are wanted"
    ) as raised:
        first(sh.MapDeserializer(rows), 11)
    assert raised.value.sequence == 10


def test_tuples_are_named_by_their_places() -> None:
    assert list(first(sh.MapDeserializer([(1, 2)] * 9)).keys()) == ["x", "y"]
    assert list(first(sh.MapDeserializer([(1, 2, 3)] * 9)).keys()) == ["x0", "x1", "x2"]


def test_a_subset_of_items_is_served() -> None:
    data = pytest.importorskip("torch.utils.data")
    listed = sh.MapDeserializer(data.Subset([{"x": n} for n in range(5)], [3, 1]))
    assert first(listed)["x"].values.tolist() == [3, 1]


class Slow:
    """Items of which two must be asked for at a time, once."""

    thread_safe = True

    def __init__(self) -> None:
        self.both = threading.Barrier(2, timeout=60)
        self.met = False

    def meet(self) -> None:
        if not self.met:
            self.both.wait()
            self.met = True

    def __len__(self) -> int:
        return 9

    def __getitem__(self, number: int) -> dict[str, int]:
        if number:
            self.meet()
        return {"x": number}


class SlowTogether(Slow):
    """The same, several at a time."""

    def __getitems__(self, numbers: list[int]) -> list[dict[str, int]]:
        self.meet()
        return [{"x": number} for number in numbers]


@pytest.mark.parametrize("dataset", [Slow, SlowTogether])
def test_items_are_got_side_by_side_where_that_is_safe(
    dataset: type[Slow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with sh.MinibatchSource(sh.MapDeserializer(dataset()), randomize=False) as source:
        source.current_position = 1
        assert source.next_minibatch(8)["x"].values.tolist() == list(range(1, 9))
