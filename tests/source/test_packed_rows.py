"""Packed rows as arrays: what the model plans."""

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model_layouts as layouts
from tests.model import ModelCorpus, ModelSettings
from tests.source.rows import KINDS, Chunks, check_rows, check_segments, source_of
from tests.sources import as_served, engines
from tests.strategies import sequence_corpora, timelines

import sweephand as sh


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_packed_rows_are_those_of_the_model(kind: str, data: st.DataObject) -> None:
    corpus, settings = as_served(kind, *data.draw(timelines(sequence_corpora())))
    length = data.draw(st.integers(1, 40))
    pad = data.draw(st.sampled_from([0, -1]))
    packed = sh.Packed(length, "split", pad_value={"tokens": pad, "pairs": pad})
    rows = [
        row.pieces
        for sweep in (0, 1)
        for row in layouts.packed_sweep(corpus, settings, length, 64, sweep)
    ]
    options = data.draw(engines())
    with source_of(kind, corpus, settings, layout=packed, max_sweeps=2, **options) as source:
        while rows:
            size = data.draw(st.integers(1, 9 * length))
            workers = data.draw(st.integers(1, 5))
            rank = data.draw(st.integers(0, workers - 1))
            minibatch = source.next_minibatch(
                size, num_data_partitions=workers, partition_index=rank
            )
            taken, rows = rows[: max(1, size // length)], rows[max(1, size // length) :]
            share = taken[rank::workers]
            share += [()] * (-(-len(taken) // workers) - len(share))
            check_rows(minibatch, corpus, share, length, pad)
            check_segments(minibatch, share, length)
            samples = sum(piece.size for row in taken for piece in row)
            assert minibatch.global_num_samples == samples
        assert not source.next_minibatch(length)


@pytest.mark.parametrize(("count", "fill"), [(1_000, 0.99), (10_000, 0.9984)])
@pytest.mark.parametrize("chunk", [None, 10, 500])
def test_rows_of_small_corpora_are_full(count: int, fill: float, chunk: int | None) -> None:
    drawn = np.random.default_rng(1).lognormal(3, 0.8, count)
    sizes = np.clip(np.rint(drawn), 1, 256).astype(np.int64)
    if chunk is None:
        values = np.zeros(sizes.sum(), np.uint8)
        corpus: sh.Deserializer = sh.ArrayDeserializer({"x": (values, np.cumsum([0, *sizes]))})
    else:
        corpus = Chunks(
            ModelCorpus.of([sizes[i : i + chunk].tolist() for i in range(0, count, chunk)])
        )
    with sh.MinibatchSource(corpus, layout=sh.Packed(256), max_sweeps=1) as source:
        (plan,) = source.plan(sh.FULL_DATA_SWEEP)
    assert plan.num_samples == sizes.sum()
    assert plan.shape is not None
    assert plan.num_samples / (plan.shape[0] * plan.shape[1]) > fill


def test_positions_ids_and_finding_count_inside_rows() -> None:
    corpus = ModelCorpus.of([[3, 4, 5, 2, 6, 1]])
    with source_of("array", corpus, ModelSettings(num_lanes=1), layout=sh.Packed(8)) as source:
        source.current_position = 1
        assert source.current_position > 1, "the next row"
        source.current_position = 0
        minibatch = source.next_minibatch(sh.FULL_DATA_SWEEP)
        times = list(itertools.accumulate(minibatch["tokens"].lengths.tolist(), initial=0))
        for name, time in zip(minibatch.ids, times, strict=False):
            assert source.find(name) == time
            assert source.find(name, sweep=3) >= 3 * corpus.num_samples
            assert source.sequence_ids(time, time + 1) == [name]
        assert source.sequence_ids(0, corpus.num_samples) == minibatch.ids


def test_the_outputs_of_the_reference_row() -> None:
    sizes = [5, 4, 6]
    values, offsets = np.arange(15), np.cumsum([0, *sizes])
    corpus = sh.ArrayDeserializer({"ids": (values, offsets)})
    layout = sh.Packed(16, cu_seqlens_capacity=5)
    minibatch = sh.MinibatchSource(corpus, randomize=False, layout=layout).next_minibatch(16)
    ids = minibatch["ids"]
    assert ids.lengths.tolist() == [5, 6, 4], "the longest that fits comes next"
    assert minibatch.segment_ids.tolist() == [[1] * 5 + [2] * 6 + [3] * 4 + [0]]
    assert minibatch.position_ids.tolist() == [[*range(5), *range(6), *range(4), 0]]
    assert ids.cu_seqlens.tolist() == [0, 5, 11, 15, 15, 15]
    assert ids.cu_seqlens.dtype == np.int32
    assert ids.dense_cu_seqlens.tolist() == [0, 5, 11, 15, 16, 16, 16], "with the padding"
    assert ids.max_seqlen == 6
    assert (ids.labels() != -100).sum() == (ids.labels(shifted=False) != -100).sum() == 12


def test_more_sequences_than_the_capacity_are_an_error() -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.arange(8), [0, 1, 2, 3, 4, 5, 6, 8])})
    layout = sh.Packed(2, cu_seqlens_capacity=3)
    with sh.MinibatchSource(corpus, layout=layout, randomize=False) as source:
        assert source.next_minibatch(2)["ids"].cu_seqlens.size == 4
        with pytest.raises(ValueError, match=r"4 sequences.*cu_seqlens_capacity of 3"):
            _ = source.next_minibatch(4)["ids"].cu_seqlens


def test_every_long_sequence_is_refused_split_or_dropped_and_counted() -> None:
    sizes = [3, 12, 4, 25, 10]
    arrays = {"ids": (np.arange(54), np.cumsum([0, *sizes]))}
    corpus = sh.ArrayDeserializer(arrays)
    with pytest.raises(
        ValueError, match=r"2 of 5 sequences .* row of 10; .*'array__3' with 25"
    ):
        sh.MinibatchSource(corpus, layout=sh.Packed(10))
    for policy, out, dropped, split in (("split", 54, 0, 2), ("drop", 17, 2, 0)):
        layout = sh.Packed(10, policy)  # type: ignore[arg-type]
        with sh.MinibatchSource(corpus, max_sweeps=1, layout=layout) as source:
            delivered = [minibatch.num_samples for minibatch in source.minibatches(20)]
            stats = source.stats()
            assert sum(delivered) == out == source.num_samples_per_sweep
            assert stats["dropped_sequences"] == dropped
            assert stats["split_sequences"] == split
            assert stats["dropped_samples"] == (37 if dropped else 0)
            assert stats["split_samples"] == (37 if split else 0)
            assert out == stats["samples_served"]
            assert out + stats["dropped_samples"] == 54 == stats["samples_in"]


class Unread(sh.UserDeserializer):
    """Four thousand sequences of 2^20 samples, of which only the first is ever made."""

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(ids=sh.StreamDef())

    def num_chunks(self) -> int:
        return 4000

    def chunk_infos(self) -> object:
        return [(1, 2**20)] * 4000

    def sequence_lengths(self, chunk_id: int) -> object:
        return [2**20]

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        assert chunk_id == 0, "one chunk tells the types"
        return {"ids": (np.zeros(2**20, np.uint8), [0, 2**20])}


@pytest.mark.parametrize("layout", [sh.Packed(2**20), sh.TruncatedBPTT(2**20)])
def test_a_share_whose_boundaries_int32_cannot_hold_is_refused_before_it_is_read(
    layout: sh.Layout,
) -> None:
    with sh.MinibatchSource(Unread(), layout=layout, num_threads=0) as source:
        for size in (2**31, sh.FULL_DATA_SWEEP):
            with pytest.raises(ValueError, match=r"2\^31 cells or more"):
                source.next_minibatch(size)
        assert source.current_position == 0
        assert next(source.plan(2**30)).shape == (2**10, 2**20)


def test_streams_of_other_lengths_are_an_error_with_its_place() -> None:
    corpus = sh.ArrayDeserializer(
        {"ids": (np.arange(6), [0, 4, 6]), "labels": (np.arange(5), [0, 3, 5])},
    )
    for layout in (sh.Packed(8), sh.TruncatedBPTT(2)):
        source = sh.MinibatchSource(corpus, randomize=False, layout=layout)
        with pytest.raises(sh.DataError, match="rows need streams of equal lengths") as error:
            source.next_minibatch(8)
        assert (error.value.stream, error.value.sequence) == ("labels", "array__0")
        assert source.current_position == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: sh.Packed(0),
        lambda: sh.Packed(2**31 + 1),
        lambda: sh.Packed(8, look_ahead=0),
        lambda: sh.Packed(8, "cut"),
        lambda: sh.Packed(8, cu_seqlens_capacity=0),
        *(
            partial(sh.Bucketed, one)
            for one in ([], [4, 2], [4, 4], [0, 4], range(1, 100), "best")
        ),
        lambda: sh.Bucketed([4], num_buckets=2),
        lambda: sh.Bucketed("auto", 0),
        lambda: sh.Bucketed([4], side="top"),
        lambda: sh.Padded(side="top"),
        *(partial(sh.Padded, multiple_of=one) for one in (0, 1.0, True)),
        *(partial(sh.TruncatedBPTT, one) for one in (0, 2**31)),
    ],
)
def test_layouts_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"boundar|must"):
        make()


def test_segments_are_of_packed_rows_only_and_labels_of_integers_only() -> None:
    corpus = sh.ArrayDeserializer({"x": (np.arange(6.0), [0, 4, 6])})
    minibatch = sh.MinibatchSource(corpus).next_minibatch(6)
    assert not hasattr(minibatch, "segment_ids")
    assert not hasattr(minibatch["x"], "position_ids")
    assert not hasattr(minibatch, "starts")
    assert not hasattr(minibatch["x"], "dense_cu_seqlens")
    with pytest.raises(TypeError, match="labels are made of integers, stream 'x' has samples"):
        minibatch["x"].labels()


class Items:
    """Map-style data, some of which cannot be read."""

    lengths = (4, 3, 2, 5, 1)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> dict[str, object]:
        if number in (1, 3):
            raise OSError(f"item {number} is damaged")
        return {"ids": np.full(self.lengths[number], number)}


def test_what_stands_behind_a_skipped_sequence_moves_up() -> None:
    corpus = sh.MapDeserializer(Items(), sh.StreamDefs(ids=sh.StreamDef()), Items.lengths)
    layout = sh.Packed(9, pad_value=7, look_ahead=1)
    source = sh.MinibatchSource(
        corpus, layout=layout, randomize=False, max_errors=2, max_sweeps=1
    )
    minibatch = source.next_minibatch(18)
    ids = minibatch["ids"]
    assert ids.asarray().tolist() == [[0] * 4 + [2] * 2 + [7] * 3, [4] + [7] * 8]
    assert minibatch.segment_ids.tolist() == [[1] * 4 + [2] * 2 + [0] * 3, [1] + [0] * 8]
    assert ids.dense_cu_seqlens.tolist() == [0, 4, 6, 9, 10, 18]
    assert (minibatch.num_samples, minibatch.global_num_samples) == (7, 15)
    assert len(source.errors) == 2


def test_a_broadcast_stream_has_a_label_wherever_it_has_a_loss() -> None:
    streams = sh.StreamDefs(
        tokens=sh.StreamDef(defines_mb_size=True), kind=sh.StreamDef(broadcast=True)
    )
    corpus = sh.ArrayDeserializer({"tokens": [np.arange(20)], "kind": np.array([7])}, streams)
    layout = sh.Packed(8, split_long="split")
    with sh.MinibatchSource(corpus, layout=layout, randomize=False, max_sweeps=1) as source:
        for minibatch in source.minibatches(8):
            kind = minibatch["kind"]
            assert np.array_equal(kind.loss_mask(), kind.labels() != -100)


@pytest.mark.parametrize(
    "layout", [sh.Packed(8), sh.Bucketed([4, 8]), sh.TruncatedBPTT(4), sh.Padded()]
)
def test_empty_sequences_are_refused_by_name(layout: sh.Layout) -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.arange(6), [0, 4, 4, 6])})
    with pytest.raises((sh.DataError, ValueError), match=r"array__1|sequence 1"):
        sh.MinibatchSource(corpus, layout=layout)
