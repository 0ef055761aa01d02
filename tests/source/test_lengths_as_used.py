"""Offsets of many sequences are looked at where they are used, and nothing is lost by it."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import sweephand as sh

MANY = 1_000_000
AT = 123_456
Offsets = NDArray[np.int64]


def offsets_of_many() -> Offsets:
    return np.concatenate([[0], np.cumsum(np.arange(MANY) % 3 + 1)])


def descend(offsets: Offsets) -> None:
    offsets[AT + 1] = offsets[AT] - 1


def stand(offsets: Offsets) -> None:
    offsets[AT + 1] = offsets[AT]


def reach(offsets: Offsets) -> None:
    offsets[AT + 1] = offsets[AT] + 2**32


FAULTS: dict[str, tuple[Callable[[Offsets], None], str]] = {
    "descends": (descend, rf"offsets of sequence {AT} are \[\d+, \d+\): they must not descend"),
    "no sample": (stand, rf"sequence {AT} has no sample in stream 't'"),
    "too long": (
        reach,
        rf"sequence {AT} are \[\d+, \d+\): a sequence may have at most 2\^32 -",
    ),
}


def take_until_error(source: sh.MinibatchSource, kind: type[Exception]) -> Exception:
    with pytest.raises(kind) as caught:
        for _ in source.minibatches(1 << 16):
            pass
    return caught.value


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_when_its_block_is_opened(fault: str) -> None:
    offsets, (spoil, told) = offsets_of_many(), FAULTS[fault]
    values = np.zeros(offsets[-1], np.uint8)
    spoil(offsets)
    with sh.MinibatchSource({"t": (values, offsets)}, max_sweeps=1) as source:
        error = take_until_error(source, ValueError)
        assert re.search(told, str(error))
        place = source.current_position
        with pytest.raises(ValueError, match=told):
            source.next_minibatch(1 << 16)
        assert source.current_position == place
        with pytest.raises(ValueError, match=told):
            source.get_checkpoint_state()


def test_what_comes_before_a_fault_is_delivered() -> None:
    offsets = offsets_of_many()
    values = np.arange(offsets[-1], dtype=np.int32)

    def source() -> sh.MinibatchSource:
        corpus = sh.ArrayDeserializer({"t": (values, offsets)}, chunk_size=1024)
        return sh.MinibatchSource(corpus, randomize=False)

    with source() as whole:
        wanted = whole.next_minibatch(5000)["t"].values
    descend(offsets)
    with source() as spoilt:
        assert np.array_equal(spoilt.next_minibatch(5000)["t"].values, wanted)


def test_chunks_that_cannot_be_are_told_before() -> None:
    offsets = offsets_of_many()
    values = np.zeros(offsets[-1], np.uint8)
    offsets[5 * 1024] = 2**50
    with pytest.raises(ValueError, match=r"offsets of sequence 5119 are .* may have at most"):
        sh.MinibatchSource({"t": (values, offsets)})


def test_a_fault_in_a_file_names_it(tmp_path: Path) -> None:
    offsets = offsets_of_many()
    np.save(tmp_path / "t.npy", np.zeros(offsets[-1], np.uint8))
    descend(offsets)
    np.save(tmp_path / "t_offsets.npy", offsets)
    corpus = sh.NpyDeserializer({"t": (tmp_path / "t.npy", tmp_path / "t_offsets.npy")})
    with sh.MinibatchSource(corpus, max_sweeps=1) as source:
        error = take_until_error(source, sh.DataError)
        assert isinstance(error, sh.DataError)
        assert error.file == str(tmp_path / "t_offsets.npy")
        assert error.stream == "t"
        assert "they must not descend" in error.reason


def test_many_equal_lengths_are_known_to_be_equal() -> None:
    offsets = np.arange(MANY + 1) * 3
    with sh.MinibatchSource({"t": (np.zeros(3 * MANY, np.uint8), offsets)}) as source:
        state = source.get_checkpoint_state()
        assert state["window"] == "all"
        assert source.next_minibatch(7).num_samples == 6


def test_a_stream_beside_it_of_one_sample_each_lets_sequences_be_empty() -> None:
    offsets = offsets_of_many()
    values = np.zeros(offsets[-1], np.uint8)
    stand(offsets)
    data = {"t": (values, offsets), "label": np.arange(MANY)}
    with sh.MinibatchSource(data, max_sweeps=1) as source:
        count = sum(minibatch.num_sequences for minibatch in source.minibatches(1 << 18))
    assert count == MANY
