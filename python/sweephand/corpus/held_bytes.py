"""The bytes that chunks of a corpus take in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus
    from sweephand.corpus.reader import Reader

_WORD = 8  # bytes of an offset, of a number as it is parsed, and of a place in a block
_MOST_GROWTH = 8  # of numbers that are parsed: a byte of a record is a word
_SPARSE_GROWTH = 3  # a pair of four bytes is a word and an index of four

Counts = NDArray[np.float64]


def largest_chunk_bytes(corpus: Corpus) -> int:
    """Return the bytes of the largest chunk, with what plans hold of its sequences.

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
    return reader.room * (np.maximum(stored, parsed) + offsets)
