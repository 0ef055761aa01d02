"""What shuffles a sweep where nobody gave a window: all, or a window of many lengths."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sweephand as sh

MANY = 1_000_000


def lengths_of(count: int) -> NDArray[np.int64]:
    return np.arange(count) % 2 + 1


def corpus_of(lengths: NDArray[np.int64], **options: Any) -> sh.ArrayDeserializer:
    """Every sample is the number of its sequence."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    numbers = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    return sh.ArrayDeserializer({"number": (numbers, offsets)}, **options)


@pytest.fixture(scope="module")
def many() -> sh.ArrayDeserializer:
    return corpus_of(lengths_of(MANY))


def first_numbers(source: sh.MinibatchSource, time: int = 0) -> list[int]:
    source.current_position = time
    return source.next_minibatch(1000)["number"].values.tolist()


@pytest.mark.parametrize(
    ("count", "step", "window"),
    [(MANY, 1, "512 chunks"), (MANY - 1, 1, "all"), (MANY, 0, "all")],
)
def test_a_million_unequal_lengths_have_a_window_of_their_own(
    count: int, step: int, window: str
) -> None:
    lengths = np.full(count, 2) - (np.arange(count) % 2) * step
    with sh.MinibatchSource(corpus_of(lengths)) as source:
        state = source.get_checkpoint_state()
    assert state["window"] == window
    assert (state["chunks"] == "") == (window == "all")


def test_it_is_the_window_that_can_be_given(many: sh.ArrayDeserializer) -> None:
    same = corpus_of(lengths_of(MANY), chunk_size=1024)
    with (
        sh.MinibatchSource(many, randomization_seed=3) as source,
        sh.MinibatchSource(
            same, randomization_seed=3, randomization_window_in_chunks=512
        ) as other,
    ):
        assert source.get_checkpoint_state() == other.get_checkpoint_state()
        for time in (0, 1_234_567, 3_000_001):
            assert first_numbers(source, time) == first_numbers(other, time)


def test_an_explicit_window_holds_and_chunks_stay(many: sh.ArrayDeserializer) -> None:
    with sh.MinibatchSource(many, randomization_window_in_chunks=128) as source:
        assert source.get_checkpoint_state()["window"] == "128 chunks"
        assert len(source.timeline.corpus.chunk_sequences) < 10
    with sh.MinibatchSource(many, randomize=False) as source:
        assert source.get_checkpoint_state()["window"] == "all"
        assert first_numbers(source)[:4] == [0, 1, 1, 2]
