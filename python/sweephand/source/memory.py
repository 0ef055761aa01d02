"""The memory that a source holds at most."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.corpus import Corpus
from sweephand.corpus.held_bytes import largest_chunk_bytes
from sweephand.layouts import Layout
from sweephand.source.options import SourceOptions

_FEW_SEQUENCES = 10_000
_LOADED_AHEAD = 0.25  # of a window: cpp/engine/look_ahead.hpp


def memory_bound(
    corpus: Corpus, layout: Layout, options: SourceOptions, open_chunks: int, size: int
) -> int:
    """Return about how many bytes are held at most; see `MinibatchSource.memory_bound`.

    Parameters
    ----------
    open_chunks : int
        Chunks that are open at a time over all lanes.
    size : int
        Of a minibatch, in samples.
    """
    size = min(size, corpus.core.num_samples)
    window = _window_bytes(corpus, layout, options.threads, open_chunks, size)
    cells = layout.num_cells(size) * layout.padding_growth(partial(_first_sizes, corpus))
    marks = layout.mark_bytes * len(corpus.streams)
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
    largest = largest_chunk_bytes(corpus)
    chunks = min(num_chunks, window * (1 + borders))
    loads = min(chunks, corpus.stored_loads if num_threads else 1)
    return int((chunks + loads) * largest)


def _first_sizes(corpus: Corpus) -> NDArray[np.uint32]:
    """Return the sizes of the first sequences."""
    count = min(corpus.chunk_starts.bounds(0)[1], _FEW_SEQUENCES)
    return corpus.core.sizes(0, count)
