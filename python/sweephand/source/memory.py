"""The memory that a source holds at most."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.reader import Reader
from sweephand.layouts import Layout
from sweephand.source.options import SourceOptions

_FEW_SEQUENCES = 10_000
_LOADED_AHEAD = 0.25  # of a window: cpp/engine/engine.hpp
_WORD = 8  # bytes of an offset, of a number as it is parsed, and of a place in a block
_MOST_GROWTH = 8  # of numbers that are parsed: a byte of a record is a word
_ROOM = 1.25  # a column that grew gives back what is more than a quarter
_SPARSE_GROWTH = 3  # a pair of four bytes is a word and an index of four

Counts = NDArray[np.float64]


def memory_bound(
    corpus: Corpus, layout: Layout, options: SourceOptions, open_chunks: int, size: int
) -> int:
    """Return about how many bytes are held at most; see `MinibatchSource.memory_bound`."""
    size = min(size, corpus.core.num_samples)
    window = _window_bytes(corpus, layout, options.threads, open_chunks, size)
    cells = layout.num_cells(size, partial(_first_sizes, corpus))
    # Masks and marks of every cell of a stream.
    marks = ((layout.form is not _core.engine.Form.RAGGED) + 8 * layout.has_segments) * len(
        corpus.streams
    )
    ahead = options.prefetch if options.threads else 0
    return window + int((ahead + 2) * cells * (corpus.sample_bytes + marks))


def _window_bytes(
    corpus: Corpus, layout: Layout, num_threads: int, open_chunks: int, size: int
) -> int:
    if corpus.resident:
        return 0
    num_chunks = len(corpus.chunk_starts)
    window = min(num_chunks, open_chunks)
    window_samples = corpus.core.num_samples * window / num_chunks
    made_at_once = size * (num_threads + 1)
    at_hand = layout.samples_at_hand(math.ceil(window_samples))
    ahead = _LOADED_AHEAD if num_threads and corpus.readers[0].load_threads else 0
    borders = math.ceil((made_at_once + at_hand) / window_samples + ahead)
    largest = _largest_chunk_bytes(corpus)
    chunks = min(num_chunks, window * (1 + borders))
    loads = min(chunks, corpus.stored_loads if num_threads else 1)
    if any(reader.is_parsed for reader in corpus.readers):
        # Columns grow by doubling, in each thread that parses and in the caller's.
        loads += min(loads, num_threads + 1)
    return int((chunks + loads) * largest)


def _largest_chunk_bytes(corpus: Corpus) -> int:
    """Return the bytes of the largest chunk, including its share of the plans.

    Values are known from what is stored or, where they are parsed, from their number and type;
    offsets and plans from the numbers of sequences and samples.
    """
    sequences = corpus.chunk_sequences.astype(np.float64)
    samples = corpus.sizing.chunk_samples.astype(np.float64)
    held = _WORD * sequences  # of the block
    for reader in corpus.readers:
        held = held + _bytes_of(reader, sequences, samples)
    return int(held.max()) + 1


def _bytes_of(reader: Reader, sequences: Counts, samples: Counts) -> Counts:
    stored = samples * reader.sample_bytes
    offsets = np.zeros_like(stored)
    numbers = np.zeros_like(stored)
    for info in reader.streams:
        counts = sequences if info.is_single else samples
        offsets += 0 if info.is_single else _WORD * (sequences + 1)
        if info.is_variable:
            offsets += _WORD * (counts + 1)
        else:
            least = _WORD if info.dtype.kind in "biu" else reader.float_bytes
            word = max(least, info.dtype.itemsize)
            numbers += counts * math.prod(info.shape) * word
    if not reader.is_parsed:
        return stored + offsets
    parsed = np.minimum(numbers, _MOST_GROWTH * stored)
    if any(info.is_sparse for info in reader.streams):
        parsed += _SPARSE_GROWTH * stored
    elif any(info.is_bytes for info in reader.streams):
        parsed += stored
    return _ROOM * (np.maximum(stored, parsed) + offsets)


def _first_sizes(corpus: Corpus) -> NDArray[np.uint32]:
    """Return the sizes of the first sequences."""
    count = min(corpus.chunk_starts.bounds(0)[1], _FEW_SEQUENCES)
    return corpus.core.sizes(0, count)
