"""Calls for minibatches in every spelling, and what they return."""

from typing import Any

import numpy as np
import pytest

import sweephand as sh

SIZE = "minibatch_size_in_samples"


def make_source(**options: Any) -> sh.MinibatchSource:
    corpus = sh.ArrayDeserializer({"x": np.arange(100)})
    return sh.MinibatchSource(corpus, **options)


def asked_often(source: sh.MinibatchSource) -> sh.MinibatchSource:
    for _ in range(3):
        source.next_minibatch(4)
    return source


@pytest.mark.parametrize(
    ("args", "named", "number"),
    [
        ((4,), {}, 4),
        ((), {SIZE: 4}, 4),
        ((4, None, None, 1, 0), {}, 4),
        ((4,), {"input_map": None, "device": "cpu"}, 4),
        ((4,), {"num_data_partitions": 2, "partition_index": 1}, 2),
        ((4, None, None, 2), {}, 2),
        ((6,), {}, 6),
        ((np.int64(4),), {}, 4),
        ((4, {"y": "x"}), {}, 4),
    ],
)
def test_every_way_to_ask_gives_the_next_minibatch(
    args: tuple[Any, ...], named: dict[str, Any], number: int
) -> None:
    source, other = asked_often(make_source()), asked_often(make_source())
    for _ in range(3):
        minibatch = source.next_minibatch(*args, **named)
        key = "y" if {"y": "x"} in args else "x"
        size = int(args[0]) if args else 4
        whole = other.next_minibatch(size)["x"].values
        assert minibatch[key].values.tolist() == whole[len(whole) - number :].tolist() or (
            number == 2 and set(minibatch["x"].values) <= set(whole)
        )
        assert minibatch.num_samples == number
        source.next_minibatch(4)
        other.next_minibatch(4)


@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded(), sh.Packed(9)], ids=repr)
def test_streams_and_their_arrays_are_made_once(layout: sh.Layout) -> None:
    corpus = {"tokens": [np.arange(3), np.arange(2), np.arange(4)], "label": np.arange(3)}
    minibatch = sh.MinibatchSource(corpus, layout=layout).next_minibatch(9)
    for key in minibatch:
        data = minibatch[key]
        assert minibatch[key] is data
        before = data.values, data.offsets, data.mask
        after = data.values, data.offsets, data.mask
        assert all(one is other for one, other in zip(before, after, strict=True))


def test_a_loop_goes_on_where_calls_in_it_stop() -> None:
    source, other = make_source(randomize=False), make_source(randomize=False)
    found = []
    for number, minibatch in enumerate(source.sweep(8)):
        found += minibatch["x"].values.tolist()
        if number % 2:
            found += source.next_minibatch(3)["x"].values.tolist()
    wanted = [value for one in other.sweep(1) for value in one["x"].values.tolist()]
    assert found == wanted
