"""Corpora for layouts of rows, and what their arrays must hold."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from tests.model import ModelCorpus, ModelSettings
from tests.model_layouts import Piece
from tests.sources import order_options, ragged

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
    assert minibatch.starts.tolist() == begins
    assert minibatch.num_sequences == len(pieces)
    assert minibatch.num_samples == sum(piece.size for piece in pieces)
    pairs = minibatch["pairs"].asarray()
    assert np.array_equal(pairs[mask > 0], np.stack([data.values, -data.values], 1))
    assert (pairs[mask == 0] == pad).all()
    assert np.array_equal(minibatch["number"].asarray(), np.where(mask > 0, numbers, 0))
    cells = len(rows) * length
    assert minibatch.fill_ratio == (minibatch.num_samples / cells if cells else 1.0)


def check_segments(minibatch: sh.Minibatch, rows: list[tuple[Piece, ...]], length: int) -> None:
    segments = np.zeros((len(rows), length), np.int32)
    positions = np.zeros((len(rows), length), np.int32)
    for r, row in enumerate(rows):
        ends = [0, *itertools.accumulate(piece.size for piece in row)]
        for s, (begin, end) in enumerate(itertools.pairwise(ends)):
            segments[r, begin:end] = s + 1
            positions[r, begin:end] = np.arange(end - begin)
    for found, wanted in [
        (minibatch.segment_ids, segments),
        (minibatch["tokens"].segment_ids, segments),
        (minibatch.position_ids, positions),
        (minibatch["pairs"].position_ids, positions),
    ]:
        assert found.dtype == np.int32
        assert np.array_equal(found, wanted)
