"""What a minibatch looks like: ragged, padded, as frames, for streams of every make."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.model import ModelCorpus
from tests.sources import (
    Sequences,
    engines,
    in_equal_chunks,
    numbers,
    order_options,
)
from tests.strategies import timelines, workers

import sweephand as sh

DTYPES = ["bool", "int8", "uint16", "int64", "uint64", "float16", "float32", "complex64"]
SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (2, 2), (0,), (2, 0)]

dtypes = st.sampled_from([*map(np.dtype, DTYPES), np.dtype(ml_dtypes.bfloat16)])


@dataclass(frozen=True)
class Stream:
    """A stream as it should be delivered, and what a deserializer is given for it."""

    sequences: Sequences
    data: object
    definition: sh.StreamDef
    sparse: bool = False


def values_of(count: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    cells = np.arange(count * int(np.prod(shape))) % 113
    return cells.reshape(count, *shape).astype(dtype)


@st.composite
def dense_streams(draw: st.DrawFn, lengths: list[int]) -> Stream:
    """A ragged stream, or one sample per sequence, possibly repeated for all its samples."""
    shape, dtype = draw(st.sampled_from(SHAPES)), draw(dtypes)
    kind = draw(st.sampled_from(["ragged", "list", "one", "broadcast"]))
    if kind in ("ragged", "list"):
        values = values_of(sum(lengths), shape, dtype)
        sequences = np.split(values, np.cumsum(lengths)[:-1])
        data: object = (values, np.cumsum([0, *lengths])) if kind == "ragged" else sequences
        # Without a shape, arrays that all look like a picture are one sample each.
        told = sh.StreamDef(shape=shape) if kind == "list" else sh.StreamDef()
        return Stream(sequences, data, told)
    values = values_of(len(lengths), shape, dtype)
    if kind == "one":
        return Stream([value[None] for value in values], values, sh.StreamDef())
    repeated = [np.repeat(v[None], n, 0) for v, n in zip(values, lengths, strict=True)]
    return Stream(repeated, values, sh.StreamDef(broadcast=True))


@st.composite
def sparse_streams(draw: st.DrawFn, lengths: list[int]) -> Stream:
    """Sparse samples, some of them empty, as one matrix per sequence."""
    dimension = draw(st.integers(1, 5))
    cells = draw(
        st.lists(
            st.lists(st.integers(-2, 2), min_size=dimension, max_size=dimension),
            min_size=sum(lengths),
            max_size=sum(lengths),
        )
    )
    dense = np.array(cells, np.float32).reshape(-1, dimension)
    sequences = np.split(dense, np.cumsum(lengths)[:-1])
    data = [scipy.sparse.csr_matrix(sequence) for sequence in sequences]
    return Stream(sequences, data, sh.StreamDef(is_sparse=True), sparse=True)


@st.composite
def streams_of(draw: st.DrawFn, corpus: ModelCorpus) -> dict[str, Stream]:
    """The size-defining stream and others, with the same lengths and with their own."""
    sizes = corpus.sizes
    values = values_of(sum(sizes), (), np.dtype(np.int32))
    streams = {
        "size": Stream(
            np.split(values, np.cumsum(sizes)[:-1]),
            (values, np.cumsum([0, *sizes])),
            sh.StreamDef(defines_mb_size=True),
        )
    }
    for n in range(draw(st.integers(0, 3))):
        lengths = sizes
        if draw(st.booleans()):
            lengths = [size * (s + n) % 4 for s, size in enumerate(sizes)]
        make = draw(st.sampled_from([dense_streams, sparse_streams]))
        stream = draw(make(lengths))
        if stream.definition.broadcast:  # it has the lengths of the size-defining stream
            stream = Stream(
                [np.repeat(v, size, 0) for v, size in zip(firsts(stream), sizes, strict=True)],
                stream.data,
                stream.definition,
            )
        streams[f"stream {n}"] = stream
    return streams


def firsts(stream: Stream) -> Sequences:
    """The one sample per sequence of a stream that is repeated, shape (1, *shape) each."""
    assert isinstance(stream.data, np.ndarray)
    return [value[None] for value in stream.data]


def array_source(
    corpus: ModelCorpus, streams: dict[str, Stream], **options: Any
) -> sh.MinibatchSource:
    return sh.MinibatchSource(
        sh.ArrayDeserializer(
            {name: stream.data for name, stream in streams.items()},
            sh.StreamDefs(**{name: stream.definition for name, stream in streams.items()}),
            chunk_size=len(corpus.chunks[0]),
        ),
        **options,
    )


def check_ragged(data: sh.MinibatchData, wanted: Sequences, *, sparse: bool) -> None:
    lengths = [len(sequence) for sequence in wanted]
    assert data.num_sequences == len(data) == len(wanted)
    assert data.num_samples == sum(lengths)
    assert data.lengths.tolist() == lengths
    assert data.offsets.tolist() == np.cumsum([0, *lengths]).tolist()
    assert data.offsets.dtype == np.int64
    assert data.cu_seqlens.tolist() == data.offsets.tolist()
    assert data.cu_seqlens.dtype == np.int32
    assert data.max_seqlen == max(lengths, default=0)
    assert data.shape == (len(wanted), data.max_seqlen, *data.info.shape)
    assert data.is_sparse == data.info.is_sparse == sparse
    for found, sequence in zip(data.as_sequences(), wanted, strict=True):
        assert found.dtype == sequence.dtype
        assert found.shape == sequence.shape
        assert np.array_equal(found.toarray() if sparse else found, sequence)
    if not sparse:
        assert data.values is data.data
        assert data.values.shape == (data.num_samples, *data.info.shape)
        assert data.values.flags.c_contiguous


def check_dense(
    data: sh.MinibatchData, wanted: Sequences, layout: sh.Padded, **asked: Any
) -> None:
    """`asarray` and `mask` against a grid that is filled cell by cell."""
    longest = max((len(sequence) for sequence in wanted), default=0)
    width = -(-longest // layout.multiple_of) * layout.multiple_of
    pad = asked.get("pad_value", layout.pad_value_of(data.info.name))
    grid = np.full((len(wanted), width, *data.info.shape), pad, data.info.dtype)
    mask = np.zeros((len(wanted), width), np.uint8)
    for row, sequence in enumerate(wanted):
        first = width - len(sequence) if layout.side == "left" else 0
        for column, sample in enumerate(sequence):
            grid[row, first + column] = sample
            mask[row, first + column] = 2 if column == 0 else 1
    if data.info.is_single:  # no axis of samples
        grid = np.array([sequence[0] for sequence in wanted], data.info.dtype)
        grid = grid.reshape(len(wanted), *data.info.shape)
        mask = np.full(len(wanted), 2, np.uint8)
    found = data.asarray(**asked)
    assert found.dtype == grid.dtype
    assert found.shape == grid.shape
    assert np.array_equal(found, grid)
    assert data.mask.dtype == np.uint8
    assert np.array_equal(data.mask, mask)
    assert np.array_equal(np.asarray(data), data.asarray())


@st.composite
def paddings(draw: st.DrawFn, names: list[str]) -> sh.Padded:
    pads = st.integers(0, 1)
    return sh.Padded(
        pad_value=draw(pads | st.dictionaries(st.sampled_from(names), pads)),
        side=draw(st.sampled_from(["right", "left"])),
        multiple_of=draw(st.sampled_from([1, 2, 8])),
    )


@given(st.data())
def test_every_layout_holds_the_sequences_of_the_share(data: st.DataObject) -> None:
    corpus, settings = data.draw(timelines())
    corpus = in_equal_chunks(corpus)
    streams = data.draw(streams_of(corpus))
    layout = data.draw(st.sampled_from([sh.Ragged(), None]) | paddings(list(streams)))
    as_grid = layout if isinstance(layout, sh.Padded) else sh.Padded()
    options = order_options(settings) | data.draw(engines())
    with array_source(corpus, streams, layout=layout, **options) as source:
        for _ in range(2):
            count = data.draw(workers(settings))
            minibatch = source.next_minibatch(
                data.draw(st.integers(1, corpus.num_samples)),
                num_data_partitions=count,
                partition_index=data.draw(st.integers(0, count - 1)),
            )
            share = numbers(minibatch.ids)
            for name, stream in streams.items():
                wanted = [stream.sequences[n] for n in share]
                check_ragged(minibatch[name], wanted, sparse=stream.sparse)
                check_dense(minibatch[name], wanted, as_grid)
                check_dense(minibatch[name], wanted, as_grid, pad_value=1)


# Frames ---------------------------------------------------------------------------------------


def test_frames_refuse_streams_of_unequal_lengths_where_they_are_met() -> None:
    class Unequal(sh.UserDeserializer):
        def stream_infos(self) -> sh.StreamDefs:
            return sh.StreamDefs(x=sh.StreamDef(), y=sh.StreamDef())

        def num_chunks(self) -> int:
            return 2

        def get_chunk(self, chunk_id: int) -> dict[str, object]:
            values = np.arange(5)
            return {"x": (values, [0, 2, 5]), "y": (values, [0, 2 + chunk_id, 5])}

    message = "frames need streams of equal lengths: here are 3 samples, and 2 in stream 'x'"
    arrays = sh.ArrayDeserializer(Unequal().get_chunk(1))
    with pytest.raises(sh.DataError, match=message) as caught:
        sh.MinibatchSource(arrays, layout=sh.Frames())
    assert (caught.value.stream, caught.value.sequence) == ("y", 0)
    with sh.MinibatchSource(Unequal(), layout=sh.Frames(), randomize=False) as source:
        assert source.next_minibatch(5)["y"].num_samples == 5
        with pytest.raises(sh.DataError, match=message) as caught:
            source.next_minibatch(5)
        assert (caught.value.chunk, caught.value.stream) == (1, "y")
        source.current_position = 0
        assert source.next_minibatch(3)["y"].num_samples == 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"layout": sh.Frames(), "frame_mode": True}, ValueError, "not both"),
        ({"layout": sh.Ragged(), "truncation_length": 2}, ValueError, "not both"),
        ({"frame_mode": True, "truncation_length": 2}, ValueError, "exclude each other"),
        ({"layout": "padded"}, TypeError, "must be a Layout such as sh.Padded"),
        ({"layout": sh.Padded}, TypeError, "must be a Layout such as sh.Padded"),
        ({"layout": sh.Padded(pad_value=0.5)}, ValueError, "pad_value 0.5 of stream 'x' is no"),
        ({"layout": sh.Padded(pad_value=-1)}, ValueError, "pad_value -1 of stream 'x' is no"),
        ({"layout": sh.Padded(pad_value=2**16)}, ValueError, "pad_value 65536 of stream 'x'"),
        ({"layout": sh.Padded(pad_value=float("nan"))}, ValueError, "pad_value nan of stream"),
        ({"layout": sh.Padded(pad_value={"x": "a"})}, ValueError, "pad_value 'a' of stream"),
        ({"layout": sh.Padded(pad_value={"z": 1})}, ValueError, "pad_value names 'z'"),
    ],
)
def test_a_layout_that_contradicts_itself_or_the_streams_is_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    corpus = sh.ArrayDeserializer({"x": np.arange(3, dtype=np.uint16)})
    with pytest.raises(error, match=message):
        sh.MinibatchSource(corpus, **options)


def test_a_layout_of_another_package_needs_no_options() -> None:
    class Mine(sh.Layout):
        """Whole sequences, as they come."""

    corpus = {"x": [np.arange(n) for n in (2, 1, 3)]}
    source = sh.MinibatchSource(corpus, randomize=False, layout=Mine())
    assert source.next_minibatch(3)["x"].values.tolist() == [0, 1, 0]
    assert source.get_checkpoint_state()["layout"] == "Mine()"
    assert source.timeline.options.to_json()["layout"] == {"kind": "Mine"}
