"""Rows of continued sequences as arrays: what the model plans."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import model_layouts as layouts
from tests.model import ModelCorpus, ModelSettings
from tests.source.rows import KINDS, Chunks, check_rows, source_of
from tests.sources import as_served, engines, order_options
from tests.strategies import sequence_corpora, timelines

import sweephand as sh


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_continued_rows_are_those_of_the_model(kind: str, data: st.DataObject) -> None:
    corpus, settings = as_served(kind, *data.draw(timelines(sequence_corpora())))
    length = data.draw(st.integers(1, 12))
    requests = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=20))
    expected = layouts.bptt(corpus, settings, length, iter(requests))
    options = data.draw(engines())
    workers = data.draw(st.integers(1, 4))
    rank = data.draw(st.integers(0, workers - 1))
    layout = sh.TruncatedBPTT(length)
    with source_of(kind, corpus, settings, layout=layout, **options) as source:
        for request, wanted in zip(requests, expected, strict=True):
            minibatch = source.next_minibatch(
                request, num_data_partitions=workers, partition_index=rank
            )
            rows = [tuple(row) for row in wanted.rows[rank::workers]]
            check_rows(minibatch, corpus, rows, length)
            assert minibatch.nominal_time == wanted.time
            assert minibatch.sweeps_ended == wanted.sweeps_ended
            assert minibatch


def test_the_worked_example_of_cntk_as_arrays() -> None:
    values = np.array([0, 1, 2, 3, 4, 10, 11, 20, 21, 22, 23])
    corpus = sh.ArrayDeserializer({"x": (values, [0, 5, 7, 11])})
    source = sh.MinibatchSource(corpus, randomize=False, truncation_length=3, max_sweeps=1)
    first, second = source.minibatches(6)
    assert first["x"].asarray().tolist() == [[0, 1, 2], [10, 11, 20]]
    assert first["x"].mask.tolist() == [[2, 1, 1], [2, 1, 2]]
    assert first.starts.tolist() == [0, 0, 2]
    assert second["x"].asarray(pad_value=-1).tolist() == [[3, 4, -1], [21, 22, 23]]
    assert second["x"].mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert second.starts.tolist() == [-3, -1]
    assert (first.global_num_samples, second.global_num_samples) == (6, 5)
    assert second.end_of_sweep


def test_sparse_streams_are_made_dense_in_rows() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    rows = [scipy_sparse.csr_matrix(np.eye(4)[:n] * (n + 1)) for n in (3, 2, 4)]
    for layout in (sh.Packed(6), sh.TruncatedBPTT(2)):
        source = sh.MinibatchSource(
            sh.ArrayDeserializer({"x": rows}), randomize=False, layout=layout
        )
        for minibatch in itertools.islice(source.minibatches(12), 3):
            dense = minibatch["x"].asarray()
            assert dense.shape == (*minibatch["x"].mask.shape, 4)
            found = minibatch["x"].as_sequences()
            assert np.array_equal(
                dense[minibatch["x"].mask > 0], np.concatenate([one.toarray() for one in found])
            )
            assert not dense[minibatch["x"].mask == 0].any()


# Chunks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout", [sh.Packed(16), sh.Bucketed([4, 9]), sh.TruncatedBPTT(3), sh.Ragged()]
)
@pytest.mark.parametrize("randomize", [True, False])
def test_every_chunk_is_loaded_once_per_sweep(layout: sh.Layout, randomize: bool) -> None:
    sizes: NDArray[np.int64] = np.random.default_rng(0).integers(1, 10, 600)
    corpus = ModelCorpus.of(sizes.reshape(60, 10).tolist())
    settings = ModelSettings(num_lanes=4, window_chunks=4, randomize=randomize)
    chunks = Chunks(corpus)
    options = order_options(settings)
    with sh.MinibatchSource(chunks, layout=layout, num_threads=0, **options) as source:
        while not source.next_minibatch(32).end_of_sweep:
            pass
    # A lane's cut may go through a chunk, which then is loaded for both lanes.
    assert len(chunks.loads) <= 60 + 2 * settings.num_lanes
    assert set(chunks.loads) == set(range(60))
