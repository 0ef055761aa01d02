"""Layouts of rows are for sequences: where all have one sample, they are refused by name."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import sweephand as sh

FLAT = np.arange(24)
TOKENS = (FLAT, np.arange(0, 25, 4))
ROWS = [
    sh.Packed(8),
    sh.Packed(1),
    sh.Packed(8, "split"),
    sh.TruncatedBPTT(4),
]
MEANT = r"sequence_length= or end_of_document=|\(values, offsets\)"


def flat(name: str = "array") -> sh.ArrayDeserializer:
    return sh.ArrayDeserializer({"tokens": FLAT}, name=name)


def whole(name: str = "array") -> sh.ArrayDeserializer:
    return sh.ArrayDeserializer({"tokens": TOKENS}, name=name)


class Chunks(sh.UserDeserializer):
    """Its sizes are known by number, one by one."""

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(tokens=sh.StreamDef())

    def num_chunks(self) -> int:
        return 2

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        return {"tokens": [np.array([i]) for i in range(12)]}


CORPORA: dict[str, Callable[[], Any]] = {
    "array": lambda: flat(),
    "lists": lambda: {"tokens": [np.array([n]) for n in range(9)]},
    "user": lambda: Chunks(),
    "map": lambda: flat().map(lambda sequence: sequence, name="same"),
    "images": lambda: {"image": np.zeros((5, 2, 2), np.uint8)},
    "one sequence": lambda: {"tokens": np.arange(1)},
}


@pytest.mark.parametrize("layout", ROWS, ids=str)
@pytest.mark.parametrize("corpus", CORPORA)
def test_sequences_of_one_sample_are_refused_when_the_source_is_made(
    corpus: str, layout: sh.Layout
) -> None:
    made = CORPORA[corpus]()
    kind = type(layout).__name__
    with pytest.raises(ValueError, match=f"{kind} is for sequences, and all .* ({MEANT})"):
        sh.MinibatchSource(made, layout=layout)


@pytest.mark.parametrize("layout", ROWS[2:], ids=str)
def test_a_flat_corpus_of_a_mixture_is_refused_by_its_name(layout: sh.Layout) -> None:
    mixture = sh.Mixture({"code": whole("a"), "web": flat("b")}, {"code": 1, "web": 1})
    with pytest.raises(ValueError, match="all 24 sequences of the corpus 'web' have one"):
        sh.MinibatchSource(mixture, layout=layout)


def test_what_is_left_when_long_sequences_are_dropped_counts() -> None:
    corpus = {"tokens": [np.arange(1), np.arange(9), np.arange(1)]}
    with pytest.raises(ValueError, match="all 2 sequences have one sample each"):
        sh.MinibatchSource(corpus, layout=sh.Packed(8, "drop"))


@pytest.mark.parametrize("layout", ROWS[2:], ids=str)
def test_one_sequence_of_two_samples_is_enough(layout: sh.Layout) -> None:
    corpus = {"tokens": [np.arange(1), np.arange(2), np.arange(1)]}
    source = sh.MinibatchSource(corpus, layout=layout, max_sweeps=1)
    labels = [minibatch["tokens"].labels() for minibatch in source.minibatches(8)]
    assert sum(int((one != -100).sum()) for one in labels) == 1
