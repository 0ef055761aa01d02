"""Corpora as they are stored: joined, kept, mapped or cut into frames by their readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import Corpus, SettingsOf, TimelineEnd
from sweephand.corpus.ids import KeptIds, SequenceIds
from sweephand.corpus.join_keys import Keys, kept_keys
from sweephand.corpus.reader import Reader
from sweephand.corpus.sizes import Sizing, chunk_starts, counts_between
from sweephand.corpus.streams import sizing_streams
from sweephand.dataclass import dataclass, field, replace

if TYPE_CHECKING:
    from pathlib import Path

    from sweephand.corpus.loss_masks import LossMasks
    from sweephand.corpus.sweep_order import SweepOrder
    from sweephand.files.source_file import SourceFile


@dataclass(frozen=True, repr=False)
class StoredCorpus(Corpus):
    """A corpus whose readers have all of its sequences.

    Attributes
    ----------
    chunks : ndarray of uint64, shape (chunks,), or None
        Sequences in every chunk; None: as the first reader has them.
    keys : callable or None
        Join keys of all sequences, ndarray of int64 or list of str; None: their numbers.
    """

    readers: Sequence[Reader]
    ids: SequenceIds
    names: Sequence[str]
    chunks: NDArray[np.uint64] | None = None
    keys: Keys | None = None
    order: SweepOrder | None = None
    masks: LossMasks | None = None
    counts: Mapping[str, NDArray[np.uint32]] = field(default_factory=dict)
    index: Path | None = None
    files: Sequence[SourceFile] = ()
    num_dropped: int = 0
    earlier_chunks: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def chunk_sequences(self) -> NDArray[np.uint64]:
        """Sequences in every chunk: uint64, shape (chunks,)."""
        return self.readers[0].chunk_sequences if self.chunks is None else self.chunks

    @cached_property
    def sizing(self) -> Sizing:
        """The sizes of all sequences: samples of the size-defining stream, or the longest."""
        names = sizing_streams({info.name: info for info in self.streams})
        chosen = [
            one for one in self.readers if any(info.name in names for info in one.streams)
        ] or self.readers[:1]
        if len(chosen) > 1 or chosen[0].numbers is not None:
            sizes = reduce(np.maximum, (reader.sizes() for reader in chosen))
            return Sizing.of(sizes, offsets_of(self.chunk_sequences))
        sizing = chosen[0].sizing
        if self.chunks is None or np.array_equal(self.chunks, chosen[0].chunk_sequences):
            return sizing
        starts = offsets_of(self.chunk_sequences)
        return replace(sizing, chunk_samples=sizing.sizes.sums(starts.view(np.uint64)))

    @property
    def parts(self) -> Mapping[str, StoredCorpus]:
        """The corpus itself."""
        return {"": self}

    def each(self, change: Callable[[StoredCorpus], StoredCorpus]) -> StoredCorpus:
        """Return the corpus after a function was applied."""
        return change(self)

    def read_by(self, readers: Iterable[Reader]) -> StoredCorpus:
        """Return the same sequences, read by others."""
        return replace(self, readers=list(readers))

    def named(self, words: str) -> StoredCorpus:
        """Return the corpus with more words for the fingerprint."""
        return replace(self, names=[*self.names, words])

    def in_chunks_of(self, num_sequences: int) -> StoredCorpus:
        """Return the corpus in other chunks, by which sweeps are shuffled."""
        starts = chunk_starts(self.num_sequences, num_sequences)
        return replace(self, chunks=counts_between(starts))

    def keep(self, kept: NDArray[np.bool_]) -> StoredCorpus:
        """Return the corpus with only the kept sequences."""
        if kept.all():
            return self
        numbers = np.flatnonzero(kept).astype(np.uint64)
        ends = np.searchsorted(numbers, np.cumsum(self.chunk_sequences))
        order = self.order
        if order is not None:
            from sweephand.corpus.sweep_order import DerivedOrder

            new_numbers = (np.cumsum(kept) - 1).astype(np.uint64)
            order = DerivedOrder(
                order, len(kept), lambda sequences: new_numbers[sequences[kept[sequences]]]
            )
        return replace(
            self,
            readers=[reader.take(numbers) for reader in self.readers],
            ids=KeptIds(self.ids, numbers),
            chunks=np.diff(ends, prepend=0).astype(np.uint64),
            keys=kept_keys(self.keys, numbers),
            order=order,
            masks=None if self.masks is None else self.masks.take(numbers),
            counts={name: one[numbers] for name, one in self.counts.items()},
        )

    def to_join(self) -> StoredCorpus:
        """Return the corpus."""
        return self

    def timeline(
        self, settings_of: SettingsOf, end: TimelineEnd
    ) -> tuple[_core.order.Timeline, int]:
        """Return the sweeps on nominal time, and their end in samples or INFINITELY_REPEAT."""
        order = _core.order.SweepTimeline(self.core, settings_of(self, ""))
        return order, end.in_samples(self.core.num_samples)
