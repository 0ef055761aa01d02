"""What a map gives depends on the sequence and its key alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.maps import functions
from tests.model import derive_key

import sweephand as sh

LENGTHS = np.random.default_rng(5).integers(1, 30, 60)
X = [np.arange(begin, begin + n) for begin, n in enumerate(LENGTHS)]


def corpus(chunk_size: int = 7) -> sh.Deserializer:
    return sh.ArrayDeserializer({"x": X, "label": np.arange(60)}, chunk_size=chunk_size)


def digest(name: str) -> int:
    found = 0xCBF29CE484222325
    for byte in name.encode():
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def word_of(sequence_id: str, sweep: int, name: str, seed: int, version: int = 1) -> int:
    """The word of a key, as docs/order.md defines it."""
    return derive_key(1, seed, 6, sweep, digest(sequence_id), digest(name), version)


def delivered(
    minibatches: Iterator[sh.Minibatch] | list[sh.Minibatch],
) -> list[tuple[str, dict[str, bytes]]]:
    """Every sequence by its id, as the bytes of its streams."""
    found = []
    for minibatch in minibatches:
        parts = {name: minibatch[name].as_sequences() for name in minibatch}
        for i, sequence_id in enumerate(minibatch.ids):
            found.append((sequence_id, {name: parts[name][i].tobytes() for name in parts}))
    return found


def all_of(mapped: sh.Deserializer, size: int = 100, sweeps: int = 3, **options: Any) -> Any:
    with sh.MinibatchSource(
        mapped, max_sweeps=sweeps, randomization_seed=9, **options
    ) as source:
        return delivered(source.minibatches(size))


def test_a_key_is_what_the_order_says() -> None:
    mapped = corpus().map(functions.stamp, random=True)
    with sh.MinibatchSource(mapped, max_sweeps=2, randomization_seed=9) as source:
        times_seen: Counter[str] = Counter()
        for minibatch in source.minibatches(100):
            x, words = minibatch["x"].as_sequences(), minibatch["word"].values
            for i, sequence_id in enumerate(minibatch.ids):
                sweep = times_seen[sequence_id]
                times_seen[sequence_id] += 1
                assert minibatch["sweep"].values[i] == sweep
                word = word_of(sequence_id, sweep, "stamp", 9)
                assert int(words[i]) == derive_key(word, 0, 0)
                philox = np.random.Philox(
                    key=np.array([derive_key(word, 2, 0), derive_key(word, 2, 1)], np.uint64)
                )
                noise = np.random.Generator(philox).integers(0, 1 << 20, len(x[i]))
                number = int(sequence_id.rpartition("__")[2])
                assert (x[i] == X[number] + (noise << 20)).all()
    assert set(times_seen.values()) == {2}


def test_every_method_draws_from_the_same_start() -> None:
    drawn = []

    def draw(sequence: dict[str, Any], key: sh.Key) -> dict[str, Any]:
        drawn.append((key.integer(10**6) == key.integer(10**6), key.uniform() == key.uniform()))
        assert (key.numpy().random(3) == key.numpy().random(3)).all()
        assert 0 <= key.uniform() < 1
        assert key.every_sweep.integer(2**64) != key.integer(2**64)
        with pytest.raises(ValueError, match="n must be"):
            key.integer(0)
        return sequence

    all_of(corpus().map(draw, random=True), sweeps=1)
    assert set(drawn) == {(True, True)}


@given(
    batched=st.booleans(),
    size=st.integers(1, 2000),
    workers=st.sampled_from([0, 1, 8]),
    num_threads=st.sampled_from([0, 1, 2]),
    window=st.integers(1, 20),
    prefetch=st.integers(1, 5),
)
def test_neither_size_nor_threads_nor_window_change_a_value(
    batched: bool, size: int, workers: int, num_threads: int, window: int, prefetch: int
) -> None:
    function = functions.stamp_batch if batched else functions.stamp
    mapped = corpus().map(function, random=True, batched=batched, name="stamp")
    plain = corpus().map(functions.stamp, random=True)
    found = all_of(
        mapped,
        size,
        num_map_workers=workers,
        num_threads=num_threads,
        prefetch=prefetch,
        randomization_window_in_chunks=window,
    )
    expected = all_of(plain, num_map_workers=0, randomization_window_in_chunks=window)
    assert found == expected


def test_another_map_changes_no_value() -> None:
    alone = all_of(corpus().map(functions.stamp, random=True))
    beside = all_of(
        corpus().map(functions.negate).map(functions.flip, random=True, name="other")
        .map(functions.negate, name="back").map(functions.stamp, random=True)
    )  # fmt: skip
    assert [one["word"] for _, one in alone] == [one["word"] for _, one in beside]
    assert [name for name, _ in alone] == [name for name, _ in beside]


def test_a_minibatch_of_many_sweeps_tells_each() -> None:
    small = sh.ArrayDeserializer({"x": np.arange(3)}).map(functions.stamp, random=True)
    with sh.MinibatchSource(small) as source:
        sweeps = source.next_minibatch(3000)["sweep"].values
        assert (sweeps == np.repeat(np.arange(1000), 3)).all()
        with pytest.raises(ValueError, match="65535 sweeps"):
            source.next_minibatch(300_000)
        assert source.next_minibatch(3)["sweep"].values.tolist() == [1000] * 3


def test_streams_may_go_and_come_and_change_their_type() -> None:
    def change(sequence: dict[str, Any]) -> dict[str, Any]:
        return {"half": sequence["x"].astype(np.float16), "picture": np.ones((3, 2, 2)), "n": 7}

    streams = sh.StreamDefs(
        half=sh.StreamDef(), picture=sh.StreamDef(shape=(3, 2, 2), dtype="float32"),
        count=sh.StreamDef(field="n"),
    )  # fmt: skip
    with sh.MinibatchSource(corpus().map(change, streams=streams), max_sweeps=1) as source:
        minibatch = source.next_minibatch(60)
        assert list(minibatch) == ["half", "picture", "count"]
        assert minibatch["half"].values.dtype == np.float16
        assert minibatch["picture"].values.shape == (minibatch.num_sequences, 3, 2, 2)
        assert minibatch["picture"].values.dtype == np.float32
        assert minibatch["count"].values.tolist() == [7] * minibatch.num_sequences
