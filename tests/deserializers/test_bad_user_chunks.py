"""Python code that makes chunks and does wrong: an error that names it and the chunk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import sweephand as sh


class Chunks(sh.UserDeserializer):
    """Three chunks of four rows; `wrong` is what chunk 1 is asked for once `broken` is set."""

    def __init__(self, wrong: Any = None, infos: Any = "told", lengths: Any = None) -> None:
        self.wrong = wrong
        self.infos = [(4, 4)] * 3 if isinstance(infos, str) else infos
        self.lengths = lengths
        self.broken = False

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef())

    def num_chunks(self) -> int:
        return 3

    def chunk_infos(self) -> object:
        return self.infos

    def sequence_lengths(self, chunk_id: int) -> object:
        return self.lengths

    def get_chunk(self, chunk_id: int) -> Mapping[str, Any]:
        if self.broken and chunk_id == 1:
            if isinstance(self.wrong, BaseException):
                raise self.wrong
            return self.wrong  # type: ignore[no-any-return]
        return {"x": np.arange(4) + 4 * chunk_id}


WRONGS: list[tuple[Any, type[Exception]]] = [
    (KeyError("no such shard"), KeyError),
    ({"x": np.arange(3)}, sh.StaleError),
    ({"x": np.empty(0, int)}, sh.StaleError),
    ({"x": np.arange(4.0)}, sh.StaleError),
    ({"x": np.zeros((4, 2), int)}, sh.StaleError),
    ({"y": np.arange(4)}, sh.DataError),
    ({"x": np.array([{}] * 4)}, sh.DataError),
    ({"x": [[1], [], [2], [3]]}, sh.DataError),
    (None, TypeError),
]


@pytest.mark.parametrize("num_threads", [0, 2])
@pytest.mark.parametrize(("wrong", "kind"), WRONGS)
def test_a_chunk_that_goes_wrong_later_is_named_and_the_source_goes_on(
    wrong: Any, kind: type[Exception], num_threads: int
) -> None:
    chunks = Chunks(wrong)
    options = {"num_threads": num_threads, "prefetch": 1}
    with sh.MinibatchSource(chunks, randomize=False, **options) as source:
        chunks.broken = True
        assert source.next_minibatch(4)["x"].values.tolist() == [0, 1, 2, 3]
        for _ in range(2):
            with pytest.raises(kind) as caught:
                source.next_minibatch(4)
            told = "".join(getattr(caught.value, "__notes__", [])) + str(caught.value)
            assert "chunk 1" in told or "get_chunk(1)" in told
            assert "Chunks" in told
            assert source.current_position == 4
        chunks.broken = False
        assert source.next_minibatch(4)["x"].values.tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("wrong", "kind"), [one for one in WRONGS if one[1] is not sh.StaleError]
)
def test_a_chunk_that_goes_wrong_while_it_is_measured_is_named(
    wrong: Any, kind: type[Exception]
) -> None:
    chunks = Chunks(wrong, infos=None)
    chunks.broken = True
    with pytest.raises(kind):
        sh.MinibatchSource(chunks)


@pytest.mark.parametrize(
    "infos",
    [[(4, 4)] * 2, [4, 4, 4], [(4.0, 4.0)] * 3, [(4, 4), (4, -4), (4, 4)], [(0, 0)] * 3],
)
def test_infos_that_cannot_be_are_refused(infos: Any) -> None:
    with pytest.raises(ValueError, match=r"Chunks|empty"):
        sh.MinibatchSource(Chunks(infos=infos))


class ManyChunks(sh.UserDeserializer):
    """Chunks of two sequences of 3 and 5 samples; of every third the lengths are not told."""

    def __init__(self, wrong: Any = None) -> None:
        self.wrong = wrong

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef())

    def num_chunks(self) -> int:
        return 200

    def chunk_infos(self) -> object:
        return [(2, 8)] * 200

    def sequence_lengths(self, chunk_id: int) -> object:
        if chunk_id == 137 and self.wrong is not None:
            return self.wrong
        return [None, [3, 5], np.array([3, 5], np.uint8)][chunk_id % 3]

    def get_chunk(self, chunk_id: int) -> Mapping[str, Any]:
        return {"x": [[chunk_id] * 3, [chunk_id] * 5]}


def test_lengths_of_many_chunks_are_told_or_measured() -> None:
    source = sh.MinibatchSource(ManyChunks(), layout=sh.Packed(6), randomize=False)
    assert source.next_minibatch(12)["x"].asarray().tolist() == [
        [0, 0, 0, 1, 1, 1],
        [0, 0, 0, 0, 0, 0],
    ]


@pytest.mark.parametrize(
    "wrong",
    [[3.0, 5.0], [[3, 5]], [3, 4], [8, 0], [], [2**32, 3], np.array([2**64 - 1, 3], np.uint64)],
)
def test_the_chunk_whose_lengths_contradict_is_named_among_many(wrong: Any) -> None:
    with pytest.raises(sh.DataError) as caught:
        sh.MinibatchSource(ManyChunks(wrong), layout=sh.Packed(6))
    assert caught.value.chunk == 137


@pytest.mark.parametrize("randomize", [False, True])
def test_a_chunk_without_sequences_is_not_asked_for_lengths(randomize: bool) -> None:
    class WithEmpty(ManyChunks):
        def chunk_infos(self) -> object:
            return [(0, 0) if n % 2 else (2, 8) for n in range(200)]

        def sequence_lengths(self, chunk_id: int) -> object:
            assert chunk_id % 2 == 0
            return [3, 5]

        def get_chunk(self, chunk_id: int) -> Mapping[str, Any]:
            return {"x": []} if chunk_id % 2 else super().get_chunk(chunk_id)

    source = sh.MinibatchSource(WithEmpty(), num_lanes=8, randomize=randomize, max_sweeps=1)
    assert sum(len(plan.sequences) for plan in source.plan(64)) == 200


def test_other_lengths_than_those_served_are_refused() -> None:
    chunks = ManyChunks()
    options = {"layout": sh.Packed(6), "randomize": False, "max_sweeps": 1}
    with sh.MinibatchSource(chunks, **options) as source:
        chunks.wrong = [5, 3]
        with pytest.raises(sh.StaleError) as caught:
            list(source.minibatches(8))
        assert caught.value.sequence in ("ManyChunks__274", "ManyChunks__275")
