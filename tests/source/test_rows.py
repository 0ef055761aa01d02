"""Packed, bucketed and continued rows as arrays: what the model plans."""

import itertools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import model_layouts as layouts
from tests.model import ModelCorpus, ModelSettings
from tests.model_layouts import Piece
from tests.sources import as_served, engines, order_options, ragged
from tests.strategies import timelines

import sweephand as sh

KINDS = ("array", "told chunks")
IGNORED = -100


def streams_of(corpus: ModelCorpus, members: range) -> dict[str, Any]:
    """Tokens that count through the corpus, pairs beside them, and one number per sequence."""
    starts = [0, *itertools.accumulate(corpus.sizes)]
    tokens, offsets = ragged([np.arange(starts[n], starts[n + 1]) for n in members], np.int64)
    pairs = np.stack([tokens, -tokens], 1).astype(np.float32)
    return {
        "tokens": (tokens, offsets),
        "pairs": (pairs, offsets),
        "number": np.array(members, np.int32),
    }


class Chunks(sh.UserDeserializer):
    """A corpus chunk by chunk; `loads` are the chunks that were asked for."""

    def __init__(self, corpus: ModelCorpus) -> None:
        self.corpus = corpus
        self.loads: list[int] = []

    def stream_infos(self) -> sh.StreamDefs:
        return DEFINITIONS

    def num_chunks(self) -> int:
        return len(self.corpus.chunks)

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        self.loads.append(chunk_id)
        return streams_of(self.corpus, self.corpus.members[chunk_id])

    def chunk_infos(self) -> object:
        return [(len(chunk), sum(chunk)) for chunk in self.corpus.chunks]

    def sequence_lengths(self, chunk_id: int) -> object:
        return np.array(self.corpus.chunks[chunk_id], np.int64)


DEFINITIONS = sh.StreamDefs(
    tokens=sh.StreamDef(), pairs=sh.StreamDef(), number=sh.StreamDef(broadcast=True)
)


def source_of(
    kind: str, corpus: ModelCorpus, settings: ModelSettings, **options: Any
) -> sh.MinibatchSource:
    deserializer: sh.Deserializer = Chunks(corpus)
    if kind == "array":
        streams = streams_of(corpus, range(corpus.num_sequences))
        deserializer = sh.ArrayDeserializer(
            streams, DEFINITIONS, chunk_size=len(corpus.chunks[0])
        )
    return sh.MinibatchSource(deserializer, **order_options(settings), **options)


def check_rows(
    minibatch: sh.Minibatch,
    corpus: ModelCorpus,
    rows: list[tuple[Piece, ...]],
    length: int,
    pad: int = 0,
) -> None:
    """Hold the arrays of a share to its rows."""
    starts = [0, *itertools.accumulate(corpus.sizes)]
    shape = (len(rows), length)
    tokens, mask = np.full(shape, pad), np.zeros(shape, np.uint8)
    labels, same = np.full(shape, IGNORED), np.full(shape, IGNORED)
    numbers = np.full(shape, 0)
    begins = []
    for r, row in enumerate(rows):
        column = 0
        for piece in row:
            cells = slice(column, column + piece.size)
            run = starts[piece.sequence] + piece.first + np.arange(piece.size)
            tokens[r, cells] = run
            mask[r, cells] = 1
            mask[r, column] = 2 if piece.first == 0 else 1
            labels[r, cells] = run + 1
            if not piece.goes_on:
                labels[r, column + piece.size - 1] = IGNORED
            same[r, cells] = run
            same[r, column] = IGNORED
            numbers[r, cells] = piece.sequence
            begins.append(-piece.first if piece.first else column)
            column += piece.size
    data = minibatch["tokens"]
    assert np.array_equal(data.asarray(), tokens)
    assert np.array_equal(data.mask, mask)
    assert np.array_equal(data.labels(), labels)
    assert np.array_equal(data.labels(-1, shifted=False), np.where(same == IGNORED, -1, same))
    assert np.array_equal(data.loss_mask(), labels != IGNORED)
    assert np.array_equal(data.loss_mask(shifted=False), same != IGNORED)
    assert np.array_equal(data.valid_mask(np.int64), (mask > 0).astype(np.int64))
    ends = [r * length + np.cumsum([p.size for p in row]) for r, row in enumerate(rows)]
    dense = {0, *range(0, (len(rows) + 1) * length, length)}.union(
        *(end.tolist() for end in ends)
    )
    assert data.dense_cu_seqlens.tolist() == sorted(dense)
    pieces = [piece for row in rows for piece in row]
    assert data.lengths.tolist() == [piece.size for piece in pieces]
    assert np.array_equal(data.values, tokens[mask > 0])
    assert data.dense_shape == shape
    assert minibatch.starts.tolist() == data.starts.tolist() == begins
    assert minibatch.num_sequences == len(pieces)
    assert minibatch.num_samples == sum(piece.size for piece in pieces)
    pairs = minibatch["pairs"].asarray()
    assert np.array_equal(pairs[mask > 0], np.stack([data.values, -data.values], 1))
    assert (pairs[mask == 0] == pad).all()
    assert np.array_equal(minibatch["number"].asarray(), np.where(mask > 0, numbers, 0))
    cells = len(rows) * length
    assert minibatch.fill_ratio == (minibatch.num_samples / cells if cells else 1.0)
    costs = [sum(piece.size**2 for piece in row) for row in rows]
    assert minibatch.row_costs.tolist() == costs


def check_segments(minibatch: sh.Minibatch, rows: list[tuple[Piece, ...]], length: int) -> None:
    segments = np.zeros((len(rows), length), np.int32)
    positions = np.zeros((len(rows), length), np.int32)
    for r, row in enumerate(rows):
        ends = [0, *itertools.accumulate(piece.size for piece in row)]
        for s, (begin, end) in enumerate(itertools.pairwise(ends)):
            segments[r, begin:end] = s + 1
            positions[r, begin:end] = np.arange(end - begin)
        boundaries = minibatch["tokens"].row_cu_seqlens[r]
        assert boundaries[: len(ends)].tolist() == ends
        assert set(boundaries[len(ends) :].tolist()) <= {ends[-1]}
    for found, wanted in [
        (minibatch.segment_ids, segments),
        (minibatch["tokens"].segment_ids, segments),
        (minibatch.position_ids, positions),
        (minibatch["pairs"].position_ids, positions),
    ]:
        assert found.dtype == np.int32
        assert np.array_equal(found, wanted)


# Packed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_packed_rows_are_those_of_the_model(kind: str, data: st.DataObject) -> None:
    corpus, settings = as_served(kind, *data.draw(timelines()))
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


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_packed_rows_continue_from_a_state(kind: str, data: st.DataObject) -> None:
    corpus, settings = as_served(kind, *data.draw(timelines()))
    length = data.draw(st.integers(1, 40))
    packed = sh.Packed(length, "split")
    text = ""
    seen: list[int] = []
    for _ in range(4):
        with source_of(kind, corpus, settings, layout=packed, **data.draw(engines())) as source:
            if text:
                source.restore_from_checkpoint(json.loads(text))
            for _ in range(data.draw(st.integers(0, 3))):
                minibatch = source.next_minibatch(data.draw(st.integers(1, 5 * length)))
                seen += minibatch["tokens"].values.tolist()
            text = json.dumps(source.get_checkpoint_state())
            assert len(text) < 1024
    with source_of(kind, corpus, settings, layout=packed) as source:
        once: list[int] = []
        while len(once) < len(seen):
            once += source.next_minibatch(1)["tokens"].values.tolist()
    assert seen == once


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
    assert ids.row_cu_seqlens.tolist() == [[0, 5, 11, 15, 15, 15]]
    assert ids.dense_cu_seqlens.tolist() == [0, 5, 11, 15, 16, 16, 16], "with the padding"
    assert ids.max_seqlen == 6
    assert (ids.labels() != -100).sum() == (ids.labels(shifted=False) != -100).sum() == 12


def test_more_sequences_than_the_capacity_are_an_error() -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.arange(6), np.arange(7))})
    with sh.MinibatchSource(corpus, layout=sh.Packed(2, cu_seqlens_capacity=3)) as source:
        assert source.next_minibatch(2)["ids"].cu_seqlens.size == 4
        with pytest.raises(ValueError, match=r"4 sequences.*cu_seqlens_capacity of 3"):
            _ = source.next_minibatch(8)["ids"].cu_seqlens


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
            assert out + stats["dropped_samples"] == 54, "tokens in are out or accounted for"


def test_dropped_sequences_leave_ids_and_data_of_the_others_alone() -> None:
    sizes = [3, 12, 4, 25, 10]
    values = np.arange(54)
    corpus = sh.ArrayDeserializer({"ids": (values, np.cumsum([0, *sizes]))}, chunk_size=2)
    source = sh.MinibatchSource(corpus, layout=sh.Packed(10, "drop"), max_sweeps=1)
    minibatch = source.next_minibatch(sh.FULL_DATA_SWEEP)
    found = dict(zip(minibatch.ids, minibatch["ids"].as_sequences(), strict=True))
    assert {name: run.tolist() for name, run in found.items()} == {
        "array__0": [0, 1, 2],
        "array__2": [15, 16, 17, 18],
        "array__4": list(range(44, 54)),
    }
    assert source.find("array__4") in range(17)
    with pytest.raises(KeyError, match="array__3"):
        source.find("array__3")


def test_a_corpus_where_nothing_fits_is_an_error() -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.arange(12), [0, 5, 12])})
    with pytest.raises(ValueError, match="nothing is left: 2 of 2 sequences"):
        sh.MinibatchSource(corpus, layout=sh.Packed(4, "drop"))


def test_streams_of_other_lengths_are_an_error_with_its_place() -> None:
    corpus = sh.ArrayDeserializer(
        {"ids": (np.arange(6), [0, 4, 6]), "labels": (np.arange(5), [0, 3, 5])},
    )
    for layout in (sh.Packed(8), sh.TruncatedBPTT(2)):
        source = sh.MinibatchSource(corpus, randomize=False, layout=layout)
        with pytest.raises(sh.DataError, match="rows need streams of equal lengths") as error:
            source.next_minibatch(8)
        assert (error.value.stream, error.value.sequence) == ("labels", 0)
        assert source.current_position == 0


def test_a_longer_stream_is_an_error_too() -> None:
    definitions = sh.StreamDefs(ids=sh.StreamDef(defines_mb_size=True), labels=sh.StreamDef())
    corpus = sh.ArrayDeserializer(
        {"ids": (np.arange(6), [0, 4, 6]), "labels": (np.arange(7), [0, 4, 7])}, definitions
    )
    source = sh.MinibatchSource(corpus, randomize=False, layout=sh.Packed(8))
    with pytest.raises(sh.DataError, match=r"has 3 samples where .* has 2"):
        source.next_minibatch(8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sh.Packed(0), r"row_length must be in \[1, 2147483649\), got 0"),
        (lambda: sh.Packed(2**31 + 1), "row_length must be in"),
        (lambda: sh.Packed(8, look_ahead=0), "look_ahead must be in"),
        (lambda: sh.Packed(8, "cut"), "split_long must be 'error', 'split' or 'drop'"),
        (lambda: sh.Packed(8, cu_seqlens_capacity=0), "cu_seqlens_capacity must be in"),
        (lambda: sh.Bucketed([]), "boundaries must not be empty"),
        (lambda: sh.Bucketed([4, 2]), r"boundaries must ascend, each once, got \[4, 2\]"),
        (lambda: sh.Bucketed([4, 4]), "boundaries must ascend, each once"),
        (lambda: sh.Bucketed([0, 4]), "a boundary must be in"),
        (lambda: sh.Bucketed(range(1, 100)), "at most 64 boundaries, got 99"),
        (lambda: sh.Bucketed("best"), "boundaries must be integers or 'auto'"),
        (lambda: sh.Bucketed([4], num_buckets=2), "num_buckets goes with boundaries='auto'"),
        (lambda: sh.Bucketed("auto", 0), "num_buckets must be in"),
        (lambda: sh.Bucketed([4], side="top"), "side must be 'right' or 'left'"),
        (lambda: sh.TruncatedBPTT(0), "length must be in"),
        (lambda: sh.TruncatedBPTT(2**31), "length must be in"),
    ],
)
def test_layouts_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_pad_values_of_streams_that_are_not_there_are_refused() -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.arange(6), [0, 4, 6])})
    for layout in (sh.Packed(8, pad_value={"x": 1}), sh.Bucketed([8], pad_value={"x": 1})):
        with pytest.raises(ValueError, match="pad_value names 'x', the streams are: ids"):
            sh.MinibatchSource(corpus, layout=layout)


def test_segments_are_of_packed_rows_only_and_labels_of_integers_only() -> None:
    corpus = sh.ArrayDeserializer({"x": (np.arange(6.0), [0, 4, 6])})
    minibatch = sh.MinibatchSource(corpus).next_minibatch(6)
    assert not hasattr(minibatch, "segment_ids")
    assert not hasattr(minibatch["x"], "position_ids")
    assert not hasattr(minibatch, "starts")
    assert not hasattr(minibatch["x"], "row_cu_seqlens")
    with pytest.raises(TypeError, match="labels are made of integers, stream 'x' has samples"):
        minibatch["x"].labels()


@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded(side="left"), sh.Padded()])
def test_labels_stay_inside_sequences_in_plain_layouts(layout: sh.Layout) -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.arange(1, 7, dtype=np.uint16), [0, 1, 4, 6])})
    minibatch = sh.MinibatchSource(corpus, randomize=False, layout=layout).next_minibatch(6)
    labels = minibatch["ids"].labels(ignore_index=-7)
    same = minibatch["ids"].labels(ignore_index=-7, shifted=False)
    valid = minibatch["ids"].mask > 0 if minibatch["ids"].is_padded else slice(None)
    assert labels.dtype == np.int64
    assert labels[valid].tolist() == [-7, 3, 4, -7, 6, -7]
    assert same[valid].tolist() == [-7, -7, 3, 4, -7, 6]
    assert np.array_equal(minibatch["ids"].loss_mask(), labels != -7)
    assert np.array_equal(minibatch["ids"].loss_mask(shifted=False), same != -7)
    if minibatch["ids"].is_padded:
        assert (labels[~valid] == -7).all()


# Buckets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_bucketed_minibatches_are_those_of_the_model(kind: str, data: st.DataObject) -> None:
    corpus, settings = as_served(kind, *data.draw(timelines()))
    longest = max(corpus.sizes)
    boundaries = sorted({*data.draw(st.sets(st.integers(1, longest), max_size=4)), longest})
    side = data.draw(st.sampled_from(["left", "right"]))
    layout = sh.Bucketed(boundaries, pad_value={"tokens": -1}, side=side)
    requests = data.draw(st.lists(st.integers(1, 3 * longest), min_size=1, max_size=20))
    starts = [0, *itertools.accumulate(corpus.sizes)]
    expected = layouts.bucketed(corpus, settings, boundaries, iter(requests))
    options = data.draw(engines())
    with source_of(kind, corpus, settings, layout=layout, **options) as source:
        for request, wanted in zip(requests, expected, strict=True):
            minibatch = source.next_minibatch(request)
            assert minibatch.bucket_key == wanted.key
            assert minibatch.nominal_time == wanted.time
            assert minibatch.sweeps_ended == wanted.sweeps_ended
            shape = (len(wanted.entries), wanted.key)
            tokens = np.full(shape, -1)
            for row, entry in enumerate(wanted.entries):
                run = np.arange(starts[entry.sequence], starts[entry.sequence + 1])
                cells = slice(entry.size) if side == "right" else slice(-entry.size, None)
                tokens[row, cells] = run
            assert np.array_equal(minibatch["tokens"].asarray(), tokens)
            assert np.array_equal(minibatch["tokens"].mask > 0, tokens >= 0)
            assert dict(minibatch.provide_data) == {
                "tokens": shape,
                "pairs": (*shape, 2),
                "number": shape,
            }
            assert minibatch.provide_label == []
            assert minibatch.fill_ratio == minibatch.num_samples / tokens.size


@given(st.data())
def test_buckets_continue_from_a_state_whatever_was_asked_for(data: st.DataObject) -> None:
    corpus, settings = as_served("array", *data.draw(timelines()))
    layout = sh.Bucketed("auto", 3)
    sizes = st.integers(1, 3 * max(corpus.sizes))
    with source_of("array", corpus, settings, layout=layout) as source:
        for size in data.draw(st.lists(sizes, max_size=8)):
            source.next_minibatch(size)
        state = json.loads(json.dumps(source.get_checkpoint_state()))
        rest = data.draw(st.lists(sizes, min_size=1, max_size=5))
        expected = [source.next_minibatch(size).ids for size in rest]
    with source_of("array", corpus, settings, layout=layout, **data.draw(engines())) as again:
        again.restore_from_checkpoint(state)
        assert [again.next_minibatch(size).ids for size in rest] == expected


def test_automatic_boundaries_are_told() -> None:
    sizes = [2] * 6 + [3] * 2 + [5] * 3 + [9] * 2 + [12]
    corpus = sh.ArrayDeserializer({"ids": (np.zeros(63), np.cumsum([0, *sizes]))})
    source = sh.MinibatchSource(corpus, layout=sh.Bucketed("auto", num_buckets=3))
    layout = source.layout
    assert isinstance(layout, sh.Bucketed)
    assert layout.boundaries == (2, 5, 12)
    assert layout.default_bucket_key == 12
    with pytest.raises(ValueError, match=r"boundaries are chosen .* see source.layout"):
        _ = sh.Bucketed("auto").default_bucket_key


def test_a_minibatch_of_a_bucket_may_count_sequences() -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.zeros(100), np.arange(0, 101, 5))})
    layout = sh.Bucketed([8], num_sequences=6)
    with sh.MinibatchSource(corpus, layout=layout, max_sweeps=1) as source:
        assert [minibatch.num_sequences for minibatch in source.minibatches(1)] == [6, 6, 6, 2]


def test_labels_have_shapes_of_their_own() -> None:
    corpus = sh.ArrayDeserializer(
        {"data": (np.arange(6), [0, 4, 6]), "labels": (np.arange(6), [0, 4, 6])}
    )
    minibatch = sh.MinibatchSource(corpus, layout=sh.Bucketed([5])).next_minibatch(10)
    assert minibatch.provide_data == [("data", (2, 5))]
    assert minibatch.provide_label == [("labels", (2, 5))]


def test_a_sequence_longer_than_the_last_boundary_is_an_error_or_dropped() -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.arange(12), [0, 3, 12])})
    with pytest.raises(ValueError, match=r"1 of 2 .* last boundary, 8; .* 'array__1' with 9"):
        sh.MinibatchSource(corpus, layout=sh.Bucketed([4, 8]))
    source = sh.MinibatchSource(corpus, layout=sh.Bucketed([4, 8], drop_long=True))
    assert source.num_sequences_per_sweep == 1
    assert source.stats()["dropped_samples"] == 9


def test_finding_in_buckets_needs_a_size() -> None:
    corpus = sh.ArrayDeserializer({"ids": (np.arange(12), [0, 3, 5, 12])})
    for layout in (sh.Bucketed([8]), sh.TruncatedBPTT(2)):
        source = sh.MinibatchSource(corpus, layout=layout)
        with pytest.raises(ValueError, match=r"depends on the minibatch size.* ask for a"):
            source.find("array__1")
        minibatch = source.next_minibatch(8)
        assert source.find(minibatch.ids[0]) == 0
        assert source.sequence_ids(0, 1) == minibatch.ids[:1]


# Truncated back-propagation through time ------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_continued_rows_are_those_of_the_model(kind: str, data: st.DataObject) -> None:
    corpus, settings = as_served(kind, *data.draw(timelines()))
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


@given(st.data())
def test_rows_continue_from_a_state_in_the_middle_of_sequences(data: st.DataObject) -> None:
    corpus, settings = as_served("array", *data.draw(timelines()))
    layout = sh.TruncatedBPTT(data.draw(st.integers(1, 12)))
    sizes = st.integers(1, 60)
    with source_of("array", corpus, settings, layout=layout) as source:
        for size in data.draw(st.lists(sizes, max_size=8)):
            source.next_minibatch(size)
        state = json.loads(json.dumps(source.get_checkpoint_state()))
        rest = data.draw(st.lists(sizes, min_size=1, max_size=5))
        expected = [source.next_minibatch(size) for size in rest]
    with source_of("array", corpus, settings, layout=layout, **data.draw(engines())) as again:
        again.restore_from_checkpoint(state)
        for size, wanted in zip(rest, expected, strict=True):
            found = again.next_minibatch(size)
            assert np.array_equal(found["tokens"].asarray(), wanted["tokens"].asarray())
            assert np.array_equal(found.starts, wanted.starts)


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
