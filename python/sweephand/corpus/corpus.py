"""Corpora: sequences, their storage order, and how they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of, ranges
from sweephand.corpus.ids import KeptIds, Keys, SequenceIds, kept_keys
from sweephand.corpus.reader import Reader, StoredReader
from sweephand.corpus.sizes import Sizing, chunks_between
from sweephand.corpus.streams import StreamInfo, size_stream, sizing_streams

if TYPE_CHECKING:
    from pathlib import Path

    from sweephand.files.source_file import SourceFile


class Corpus(ABC):
    """Sequences that are ready to be planned and read.

    Its damaged items are counted by the `Ledger` that it was opened with. Every kind is made of
    `StoredCorpus`: itself, or the parts of a mixture.
    """

    # The timeline is a row of sweeps; False: each part of a mixture has sweeps of its own.
    has_sweeps: ClassVar[bool] = True
    order: SweepOrder | None = None  # of `randomize=False`; None: sequences by their numbers
    # The samples that a loss is taken on, of the stream that has a loss mask.
    masks: LossMasks | None = None
    # What every sequence has of the carried streams that the plan asks for: (sequences,).
    counts: Mapping[str, NDArray[np.uint32]] = MappingProxyType({})
    index: Path | None = None  # where the index of the files is kept
    # What happens when a part of a mixture ends: "stop" (a sweep ends), "repeat" or "drop".
    at_end: str = "stop"
    if TYPE_CHECKING:  # fields of one kind, and computed by another

        @property
        def readers(self) -> Sequence[Reader]:
            """Readers of the streams: a single reader, or several that are joined."""

        @property
        def ids(self) -> SequenceIds:
            """Names of the sequences."""

        @property
        def names(self) -> Sequence[str]:
            """Base names of files or arrays, for the fingerprint."""

        @property
        def chunk_starts(self) -> _core.index.Starts:
            """The first sequence of every chunk of a sweep."""

        @property
        def sizing(self) -> Sizing:
            """The sizes: samples of the size-defining stream, or the longest."""

        @property
        def files(self) -> Sequence[SourceFile]:
            """All that it is read from; none if that is no file, or has no identity."""

        @property
        def num_dropped(self) -> int:
            """Sequences that a join has left out."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, StoredCorpus]:
        """The corpora of a mixture by name; a single corpus has the name ""."""

    @abstractmethod
    def each(self, change: Callable[[StoredCorpus], StoredCorpus]) -> Corpus:
        """Return the corpus after a function was applied to every part."""

    @abstractmethod
    def keep(self, kept: NDArray[np.bool_]) -> Corpus:
        """Return the corpus with only the kept sequences; ids and join keys stay."""

    @abstractmethod
    def named(self, words: str) -> Corpus:
        """Return the corpus with more words for the fingerprint."""

    @abstractmethod
    def to_join(self) -> StoredCorpus:
        """Return the corpus in a form that can be joined; ValueError if it cannot be."""

    def changed(self, change: ShareChange) -> Corpus:
        """Return the corpus whose shares change once more, after all other changes.

        TypeError or ValueError if there are no such shares.
        """
        raise ValueError("there is one corpus; weights are of a sh.Mixture")

    @abstractmethod
    def timeline(
        self, settings_of: SettingsOf, end: TimelineEnd
    ) -> tuple[_core.order.Timeline, int]:
        """Return the order on nominal time, and its end in samples or INFINITELY_REPEAT.

        ValueError if the limits make no sense for the corpus.
        """

    def __repr__(self) -> str:
        streams = ", ".join(info.brief for info in self.streams)
        num_chunks = len(self.chunk_starts)
        return (
            f"{type(self).__name__}({self.num_sequences} sequences in {num_chunks} chunks; "
            f"{streams})"
        )

    @property
    def streams(self) -> list[StreamInfo]:
        """The streams of all readers."""
        return [info for reader in self.readers for info in reader.streams]

    @property
    def size_stream(self) -> str | None:
        """The stream that defines the size; None: the longest."""
        return size_stream(self.streams)

    @property
    def num_sequences(self) -> int:
        """Sequences of the corpus."""
        return self.chunk_starts.total

    @property
    def chunk_sequences(self) -> NDArray[np.uint64]:
        """Sequences in every chunk: shape (chunks,), made when asked for."""
        return self.chunk_starts.counts()

    @cached_property
    def core(self) -> _core.index.Corpus:
        """The corpus as the core plans with it."""
        corpus = _core.index.Corpus(self.chunk_starts, self.sizing.samples, self.sizing.sizes)
        if self.masks is not None:
            masks = self.masks
            corpus = corpus.masked_by(masks.offsets, masks.bounds, masks.weights)
        if self.order is None:
            return corpus
        return corpus.ordered_by(
            _core.index.CallbackOrder(fill=self.order.numbers, place=self.order.place)
        )

    @property
    def is_mapped(self) -> bool:
        """True if sequences are mapped on demand, when a minibatch wants them."""
        return any(reader.is_mapped for reader in self.readers)

    @property
    def resident(self) -> bool:
        """True if every sequence can be read by itself, at once."""
        return all(reader.resident for reader in self.readers)

    @property
    def sample_bytes(self) -> float:
        """Mean bytes of all streams for one sample, for estimates of memory."""
        return sum(reader.sample_bytes for reader in self.readers)

    @property
    def open_chunks(self) -> int:
        """The number of chunks that an unshuffled sweep has open at a time."""
        return self.readers[0].open_chunks

    def in_window(self) -> Corpus:
        """Return the corpus as it is read where the user has given a window."""

        def change(_: Any, reader: StoredReader, chunks: slice) -> StoredReader:
            return reader.in_window()

        return self.each(
            lambda one: one.read_by(it.through(one, slice(0), change) for it in one.readers)
        )


@dataclass(frozen=True)
class ShareChange:
    """Change of the shares of a mixture's corpora from a time on."""

    time: int  # the key from which on they hold: nominal time, as what is due counts it
    weights: object  # as a user gives them


class TimelineEnd(Protocol):
    """The end of a timeline, as a source has it."""

    def in_samples(self, sweep_samples: int) -> int:
        """Return the end of sweeps, in samples; INFINITELY_REPEAT if there is none."""

    def of_mixture(self, at_end: str) -> tuple[int, int | None]:
        """Return the end in samples, and in sweeps of a mixture's corpora; None: no end."""


SettingsOf = Callable[[Corpus, str], _core.order.OrderSettings]
"""Returns the settings of the order of a corpus, by its name in a mixture; "": it is all."""


@dataclass(frozen=True, repr=False)
class StoredCorpus(Corpus):
    """A corpus whose readers have all of its sequences."""

    readers: Sequence[Reader]
    ids: SequenceIds
    names: Sequence[str]
    # the first sequence of every chunk; None: as the first reader has them
    chunks: _core.index.Starts | None = None
    keys: Keys | None = None  # of a join; None: the numbers of sequences
    order: SweepOrder | None = None
    masks: LossMasks | None = None
    counts: Mapping[str, NDArray[np.uint32]] = field(default_factory=dict)
    index: Path | None = None
    files: Sequence[SourceFile] = ()
    num_dropped: int = 0

    @property
    def chunk_starts(self) -> _core.index.Starts:
        return self.readers[0].chunks if self.chunks is None else self.chunks

    @cached_property
    def sizing(self) -> Sizing:
        names = sizing_streams({info.name: info for info in self.streams})
        chosen = [
            one for one in self.readers if any(info.name in names for info in one.streams)
        ] or self.readers[:1]
        if len(chosen) > 1 or chosen[0].numbers is not None:
            sizes = reduce(np.maximum, (reader.sizes() for reader in chosen))
            return Sizing.of(sizes, self.chunk_starts)
        sizing = chosen[0].sizing
        if self.chunk_starts.equals(chosen[0].chunks):
            return sizing
        return replace(sizing, samples=sizing.sizes.sums(self.chunk_starts))

    @property
    def parts(self) -> Mapping[str, StoredCorpus]:
        return {"": self}

    def each(self, change: Callable[[StoredCorpus], StoredCorpus]) -> StoredCorpus:
        return change(self)

    def read_by(self, readers: Iterable[Reader]) -> StoredCorpus:
        """Return the same sequences with other readers."""
        return replace(self, readers=list(readers))

    def named(self, words: str) -> StoredCorpus:
        return replace(self, names=[*self.names, words])

    def in_chunks_of(self, num_sequences: int) -> StoredCorpus:
        """Return the corpus in other chunks, by which sweeps are shuffled."""
        return replace(self, chunks=_core.index.Starts.even(self.num_sequences, num_sequences))

    def keep(self, kept: NDArray[np.bool_]) -> StoredCorpus:
        if kept.all():
            return self
        numbers = np.flatnonzero(kept).astype(np.uint64)
        starts = np.searchsorted(numbers, self.chunk_starts.offsets())
        order = self.order
        if order is not None:
            new_numbers = (np.cumsum(kept) - 1).astype(np.uint64)
            order = DerivedOrder(
                order, len(kept), lambda sequences: new_numbers[sequences[kept[sequences]]]
            )
        return replace(
            self,
            readers=[reader.take(numbers) for reader in self.readers],
            ids=KeptIds(self.ids, numbers),
            chunks=chunks_between(starts),
            keys=kept_keys(self.keys, numbers),
            order=order,
            masks=None if self.masks is None else self.masks.take(numbers),
            counts={name: one[numbers] for name, one in self.counts.items()},
        )

    def to_join(self) -> StoredCorpus:
        return self

    def timeline(
        self, settings_of: SettingsOf, end: TimelineEnd
    ) -> tuple[_core.order.Timeline, int]:
        order = _core.order.SweepTimeline(self.core, settings_of(self, ""))
        return order, end.in_samples(self.core.num_samples)


class SweepOrder(Protocol):
    """The order of every unshuffled sweep."""

    def numbers(self, sweep: int, first: int, count: int) -> NDArray[np.uint64]:
        """Return the sequences at places ``[first, first + count)`` of a sweep."""

    def place(self, sweep: int, number: int) -> int:
        """Return the place of a sequence in a sweep."""


class DerivedOrder:
    """The order of a corpus derived from a corpus with an order of its own."""

    def __init__(
        self,
        order: SweepOrder,
        num_sequences: int,
        change: Callable[[NDArray[np.uint64]], NDArray[np.uint64]],
    ) -> None:
        self._order = order
        self._num_sequences = num_sequences
        self._change = change
        self._last = (-1, np.empty(0, np.uint64), np.empty(0, np.int64))

    def numbers(self, sweep: int, first: int, count: int) -> NDArray[np.uint64]:
        return self._sweep(sweep)[0][first : first + count]

    def place(self, sweep: int, number: int) -> int:
        return int(self._sweep(sweep)[1][number])

    def _sweep(self, sweep: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the sequences of a sweep by place, and the places by sequence."""
        known, numbers, places = self._last
        if known != sweep:
            numbers = self._change(self._order.numbers(sweep, 0, self._num_sequences))
            places = np.argsort(numbers)
            self._last = sweep, numbers, places
        return numbers, places


@dataclass(frozen=True)
class LossMasks:
    """Samples of every sequence that a loss is taken on, and their weights."""

    offsets: NDArray[np.int64]  # where the runs of each sequence begin in `bounds`, and the end
    # of each run the first sample, and the one after its last, as the sequence counts
    bounds: NDArray[np.uint32]
    weights: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # of each run;
    # empty: they are 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of bounds of each sequence: int64, shape (sequences,)."""
        return np.diff(self.offsets)

    def take(self, sequences: NDArray[np.integer]) -> LossMasks:
        """Return the masks of the given sequences, in the order of their numbers."""
        bounds = self.bounds[ranges(self.offsets, sequences)]
        weights = self.weights
        if len(weights):
            weights = weights[ranges(self.offsets // 2, sequences)]
        return LossMasks(offsets_of(self.counts[sequences]), bounds, weights)


def concat_masks(parts: Sequence[LossMasks]) -> LossMasks:
    """Return the concatenated masks of the parts, of which all or none have weights."""
    none = LossMasks(np.zeros(1, np.int64), np.empty(0, np.uint32))
    arrays = ([part.counts, part.bounds, part.weights] for part in (none, *parts))
    counts, bounds, weights = map(np.concatenate, zip(*arrays, strict=True))
    return LossMasks(offsets_of(counts), bounds, weights)


@runtime_checkable
class ChunkCache(Protocol):
    """A cache that chunks are read through: `NodeCache`, which a source need not know."""

    def read_through(
        self, corpus: Corpus, make_uses: Callable[[], Any]
    ) -> tuple[Sequence[Reader], Any]:
        """Return readers whose chunks come from the cache where they can, and its reads."""
