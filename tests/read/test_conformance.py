"""Every format serves the same corpus as arrays do: sequences, order, shares, places."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.read.format_corpora import EVERY_FORMAT, ONE_EACH, Make, arrays, corpus_for

import sweephand as sh
from sweephand.corpus import chunks
from sweephand.deserializers.units import line_units
from sweephand.ext.formats import htk

pytestmark = pytest.mark.parametrize("make", EVERY_FORMAT, ids=lambda make: make.__name__)


@pytest.fixture(params=["one chunk", "small chunks"])
def small_chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    is_small = bool(request.param == "small chunks")
    if is_small:
        monkeypatch.setattr(chunks, "CHUNK_BYTES", 30)
        monkeypatch.setattr(line_units, "UNIT_BYTES", 50)
        monkeypatch.setattr(htk, "_CHUNK_FRAMES", 8)
    return is_small


def delivered(source: sh.MinibatchSource, size: int = 7, **shares: int) -> list[Any]:
    """Per sequence: id, tokens, and what the corpus has besides."""
    found = []
    for minibatch in source.minibatches(size, **shares):
        columns = [minibatch[name].as_sequences() for name in sorted(minibatch)]
        for row, sequence_id in enumerate(minibatch.ids):
            values = [column[row].reshape(-1).tolist() for column in columns]
            if minibatch["tokens"].values.dtype.kind == "O":  # lines of digits
                values[-1] = [int(line) for line in values[-1]]
            found.append((sequence_id, minibatch.nominal_time, tuple(map(tuple, values))))
    return found


def values_of(found: list[Any]) -> list[Any]:
    """What was delivered without the ids, and of streams only those that all formats have."""
    return [(time, values[-1]) for _, time, values in found]


def test_the_order_of_the_corpus_is_that_of_the_files(
    make: Make, tmp_path: Path, small_chunks: bool
) -> None:
    corpus = corpus_for(make)
    source = sh.MinibatchSource(make(tmp_path, corpus), randomize=False, max_sweeps=1)
    found = delivered(source)
    assert [list(values[-1]) for _, _, values in found] == [
        one.tolist() for one in corpus.tokens
    ]
    if "label" in source.streams:
        assert [values[0] for _, _, values in found] == [(label,) for label in corpus.labels]
    if "text" in source.streams:
        texts = [(text.encode(),) for text in corpus.texts]
        assert [values[1] for _, _, values in found] == texts


def test_minibatches_are_those_of_arrays(make: Make, tmp_path: Path) -> None:
    corpus = corpus_for(make)
    options: dict[str, Any] = {"randomization_seed": 3, "num_lanes": 4, "max_sweeps": 2}
    source = sh.MinibatchSource(make(tmp_path, corpus), **options)
    reference = sh.MinibatchSource(arrays(tmp_path, corpus), **options)
    assert values_of(delivered(source)) == values_of(delivered(reference))


def test_every_sequence_comes_once_in_a_sweep_over_all_workers(
    make: Make, tmp_path: Path, small_chunks: bool
) -> None:
    corpus = corpus_for(make)
    deserializer = make(tmp_path, corpus)
    options: dict[str, Any] = {"num_lanes": 6, "randomization_window_in_chunks": 6}
    found = []
    for rank in range(2):
        with sh.MinibatchSource(deserializer, max_sweeps=1, **options) as source:
            found += delivered(source, num_data_partitions=2, partition_index=rank)
    assert sorted(list(values[-1]) for _, _, values in found) == sorted(
        one.tolist() for one in corpus.tokens
    )
    assert len({sequence_id for sequence_id, _, _ in found}) == len(corpus.tokens)


def test_a_state_goes_on_in_another_source(
    make: Make, tmp_path: Path, small_chunks: bool
) -> None:
    deserializer = make(tmp_path, corpus_for(make))
    options: dict[str, Any] = {"num_lanes": 4, "max_sweeps": 2, "randomization_seed": 9}
    with sh.MinibatchSource(deserializer, **options) as source:
        for _ in range(5):
            source.next_minibatch(7)
        state = source.get_checkpoint_state()
        rest = delivered(source)
    again = pickle.loads(pickle.dumps(deserializer))
    with sh.MinibatchSource(again, **options, num_threads=0) as source:
        source.restore_from_checkpoint(state)
        assert delivered(source) == rest


def test_ids_are_found_where_they_were_delivered(make: Make, tmp_path: Path) -> None:
    source = sh.MinibatchSource(make(tmp_path, corpus_for(make)), max_sweeps=1, num_lanes=4)
    for sequence_id, time, _ in delivered(source, size=1):
        assert source.find(sequence_id) == time
    with pytest.raises(KeyError):
        source.find("nobody__0")


def test_frames_are_the_samples_one_by_one(
    make: Make, tmp_path: Path, small_chunks: bool
) -> None:
    corpus = corpus_for(make)
    deserializer = make(tmp_path, corpus)
    options: dict[str, Any] = {"layout": sh.Frames(), "randomize": False, "max_sweeps": 1}
    if "label" in sh.MinibatchSource(deserializer).streams and make not in ONE_EACH:
        # Text and labels have one sample each, tokens several.
        with pytest.raises((sh.DataError, ValueError), match=r"frames"):
            delivered(sh.MinibatchSource(deserializer, **options))
        return
    frames = [
        list(values[-1])
        for _, _, values in delivered(sh.MinibatchSource(deserializer, **options))
    ]
    assert frames == [[token] for token in np.concatenate(corpus.tokens).tolist()]
