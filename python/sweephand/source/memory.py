"""How much memory a source holds at most."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.corpus import Corpus
from sweephand.layouts import Layout

_FEW_SEQUENCES = 10_000
_LOADED_AHEAD = 0.25  # of a window: cpp/engine/look_ahead.hpp


@dataclass(frozen=True)
class MemoryNeed:
    """What decides how much memory a source holds; see `MinibatchSource.memory_bound`.

    Attributes
    ----------
    window_chunks : int
        Chunks that are open at a time over all lanes.
    """

    corpus: Corpus
    layout: Layout
    window_chunks: int
    num_threads: int
    prefetch: int

    def bound(self, minibatch_size: int) -> int:
        """Return about how many bytes minibatches of so many samples need, with the window."""
        size = min(minibatch_size, self.corpus.core.num_samples)
        return self._window_bytes(size) + self._minibatch_bytes(size)

    def _minibatch_bytes(self, size: int) -> int:
        cells = self.layout.num_cells(size) * self.layout.padding_growth(self._first_sizes)
        marks = self.layout.mark_bytes * len(self.corpus.streams)
        ahead = self.prefetch if self.num_threads else 0
        return int((ahead + 2) * cells * (self.corpus.sample_bytes + marks))

    def _window_bytes(self, size: int) -> int:
        if self.corpus.resident:
            return 0
        num_chunks = len(self.corpus.chunk_sequences)
        window = min(num_chunks, self.window_chunks)
        window_samples = self.corpus.core.num_samples * window / num_chunks
        made_at_once = size * (self.num_threads + 1)
        at_hand = self.layout.samples_at_hand(math.ceil(window_samples))
        loads_ahead = self.num_threads and self.corpus.readers[0].load_threads
        ahead = _LOADED_AHEAD if loads_ahead else 0
        borders = math.ceil((made_at_once + at_hand) / window_samples + ahead)
        largest = int(self.corpus.sizing.chunk_samples.max()) * self.corpus.sample_bytes
        chunks = min(num_chunks, window * (1 + borders))
        loads = min(chunks, self.corpus.stored_loads)
        if not self.num_threads:
            loads = min(loads, 1)
        return int((chunks + loads) * largest)

    def _first_sizes(self) -> NDArray[np.uint32]:
        """Sizes of some sequences that can be told without reading much."""
        count = min(int(self.corpus.chunk_sequences[0]), _FEW_SEQUENCES)
        return self.corpus.core.sizes(0, count)
