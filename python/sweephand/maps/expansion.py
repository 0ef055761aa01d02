"""Sequences that a map makes of stored sequences: their origins and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of, ranges
from sweephand.corpus.corpus import DerivedOrder, StoredCorpus
from sweephand.corpus.ids import PartIds
from sweephand.corpus.reader import Reader
from sweephand.corpus.sizes import Sizing, chunks_between


@dataclass(frozen=True)
class Expansion:
    """Numbers and sizes of the sequences that a map makes, at least one of each input."""

    counts: NDArray[np.uint32]  # how many it makes of each
    sizes: NDArray[np.uint32]  # in samples
    several: bool  # whether it returns lists: of one sequence several may come

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first of those made of each sequence, and the end."""
        return offsets_of(self.counts)

    @cached_property
    def origins(self) -> NDArray[np.uint64] | None:
        """The stored sequence that each is made of; None: that of the same number."""
        if not self.several:
            return None
        return np.repeat(np.arange(len(self.counts), dtype=np.uint64), self.counts)

    def origins_of(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the stored sequences of the given mapped sequences."""
        return numbers if self.origins is None else self.origins[numbers]

    def parts_of(self, numbers: NDArray[np.uint64]) -> Sequence[tuple[int, int]] | None:
        """Return part and count of each given sequence; None where each is the only part."""
        if not self.several:
            return None
        origins = self.origins_of(numbers)
        parts = numbers.astype(np.int64) - self.starts[origins]
        return list(zip(parts.tolist(), self.counts[origins].tolist(), strict=True))

    def sizing(self, stored: StoredCorpus) -> Sizing:
        """Return the sizes of all, in the chunks of the stored sequences."""
        return Sizing.of(self.sizes, self.chunks(stored))

    def chunks(self, stored: StoredCorpus) -> _core.index.Starts:
        """Return the first of every chunk."""
        return chunks_between(self.starts[stored.chunk_starts.offsets()])

    def corpus(self, stored: StoredCorpus, reader: Reader) -> StoredCorpus:
        """Return the corpus of a reader's results."""
        if not self.several:
            return replace(stored, readers=[reader], chunks=None)
        order = stored.order
        if order is not None:
            order = DerivedOrder(
                order,
                stored.num_sequences,
                lambda numbers: ranges(self.starts, numbers.astype(np.int64)).astype(np.uint64),
            )
        ids = PartIds(stored.ids, lambda: self.starts)
        return replace(
            stored,
            readers=[reader],
            ids=ids,
            chunks=None,
            keys=lambda: ids.names(np.arange(len(self.sizes), dtype=np.uint64)),
            order=order,
        )
