"""A corpus: its sequences, their storage order, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.ids import SequenceIds
from sweephand.corpus.own_order import SweepOrder
from sweephand.corpus.reader import Reader
from sweephand.corpus.sizes import Sizing, chunk_starts, sum_chunks
from sweephand.corpus.streams import StreamInfo, size_stream

if TYPE_CHECKING:
    from pathlib import Path

    from sweephand.corpus.mixing import Mixing
    from sweephand.files.source_file import SourceFile

Keys = Callable[[], NDArray[np.int64] | list[str]]
"""Returns the join keys of all sequences."""


@dataclass(frozen=True)
class Corpus:
    """Sequences that are ready to be planned and read.

    `join`, `keep` and `frames` make one corpus of others; what is damaged in it is counted by
    the `Ledger` that it was opened with.

    Attributes
    ----------
    readers : sequence of Reader
        What loads the streams: one, or several that are joined.
    ids : SequenceIds
        Names of the sequences.
    names : sequence of str
        Base names of files or arrays, for the fingerprint.
    chunks : ndarray of uint64, shape (chunks,), or None
        Sequences in every chunk, by which sweeps are shuffled; None: as the reader has them.
    keys : callable or None
        Join keys of all sequences, ndarray of int64 or list of str; None: their numbers.
    order : SweepOrder or None
        What ``randomize=False`` delivers; None: the sequences by their numbers.
    index : Path or None
        Where the index of the files is kept.
    files : sequence of SourceFile
        All that it is read from; none if that is no file, or has no identity.
    num_dropped : int
        Sequences that a join has left out.
    earlier_chunks : dict of (str, ndarray of int64)
        Other defaults that earlier versions had: what to write to have one of them, and the
        first sequence of every chunk and the end as it makes them.
    mixing : Mixing or None
        The corpora of a mixture.
    """

    readers: Sequence[Reader]
    ids: SequenceIds
    names: Sequence[str]
    chunks: NDArray[np.uint64] | None = None
    keys: Keys | None = None
    order: SweepOrder | None = None
    index: Path | None = None
    files: Sequence[SourceFile] = ()
    num_dropped: int = 0
    earlier_chunks: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    mixing: Mixing | None = None

    def __repr__(self) -> str:
        streams = ", ".join(info.brief for info in self.streams)
        num_chunks = len(self.chunk_sequences)
        return f"Corpus({self.num_sequences} sequences in {num_chunks} chunks; {streams})"

    @property
    def streams(self) -> list[StreamInfo]:
        """The streams of all readers."""
        return [info for reader in self.readers for info in reader.streams]

    @property
    def size_stream(self) -> str | None:
        """The stream that defines the size; None: the longest."""
        return size_stream(self.streams)

    @property
    def chunk_sequences(self) -> NDArray[np.uint64]:
        """Sequences in every chunk: uint64, shape (chunks,)."""
        return self.readers[0].chunk_sequences if self.chunks is None else self.chunks

    @property
    def num_sequences(self) -> int:
        """Sequences of the corpus."""
        return int(self.chunk_sequences.sum())

    @cached_property
    def sizing(self) -> Sizing:
        """The sizes of all sequences: samples of the size-defining stream, or the longest."""
        if self.mixing is not None:
            return self.mixing.sizing
        name = self.size_stream
        chosen = [
            one for one in self.readers if name in (None, *(info.name for info in one.streams))
        ]
        starts = offsets_of(self.chunk_sequences.astype(np.int64))
        if len(chosen) > 1 or chosen[0].numbers is not None:
            return Sizing.of(reduce(np.maximum, (reader.sizes() for reader in chosen)), starts)
        sizing = chosen[0].sizing
        if self.chunks is None or np.array_equal(self.chunks, chosen[0].chunk_sequences):
            return sizing
        return replace(sizing, chunk_samples=sizing.sizes.sums(starts.astype(np.uint64)))

    @cached_property
    def core(self) -> _core.index.Corpus:
        """The corpus as the core plans with it."""
        corpus = _core.index.Corpus(
            self.chunk_sequences, self.sizing.chunk_samples, self.sizing.sizes
        )
        if self.order is None:
            return corpus
        return corpus.ordered_by(
            _core.index.CallbackOrder(fill=self.order.numbers, place=self.order.place)
        )

    def core_of_earlier(self, starts: NDArray[np.int64]) -> _core.index.Corpus:
        """Return the same sequences in the chunks of an earlier default."""
        sizes = self.core.sizes(0, self.num_sequences)
        counts = np.diff(starts).astype(np.uint64)
        return _core.index.Corpus(counts, sum_chunks(sizes, starts), self.sizing.sizes)

    @property
    def is_mapped(self) -> bool:
        """True if sequences are mapped on demand, when a minibatch wants them."""
        if self.mixing is not None:
            return any(corpus.is_mapped for corpus in self.mixing.corpora)
        return any(reader.core is None for reader in self.readers)

    @property
    def resident(self) -> bool:
        """True if every sequence can be read by itself, at once."""
        return all(reader.resident for reader in self.readers)

    @property
    def sample_bytes(self) -> float:
        """Mean bytes of all streams for one sample, for estimates of memory."""
        return sum(reader.sample_bytes for reader in self.readers)

    @property
    def stored_loads(self) -> int:
        """Chunks that are held as they are stored, at a time, while they are loaded."""
        return max(reader.stored_loads for reader in self.readers)

    @property
    def open_chunks(self) -> int:
        """How many chunks an unshuffled sweep has open at a time."""
        return self.readers[0].open_chunks

    def in_chunks_of(self, num_sequences: int) -> Corpus:
        """Return the corpus in other chunks, by which sweeps are shuffled."""
        starts = chunk_starts(self.num_sequences, num_sequences)
        return replace(self, chunks=np.diff(starts).astype(np.uint64))

    def in_window(self) -> Corpus:
        """Return the corpus as it is read where the user has given a window."""
        if self.mixing is not None:
            return self.mixing.each(Corpus.in_window)
        return replace(self, readers=[reader.in_window() for reader in self.readers])
