"""Readers: streams of every sequence of a corpus, and the cost of loading them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.calls import CallLock
from sweephand.corpus.sizes import Sizing
from sweephand.corpus.streams import StreamInfo
from sweephand.files import MOST_REQUESTS

UNKNOWN_CHUNK = 2**64 - 1
"""Stands for the chunks of a member whose sequences come in another order."""

Change = Callable[[Any, "StoredReader", slice], "StoredReader"]
"""Changes a reader of chunks, given its corpus and the chunks in the plan it may serve."""


@dataclass(frozen=True)
class Reader(ABC):
    """Streams of every sequence of a corpus, and how they are loaded."""

    streams: Sequence[StreamInfo]  # in the order of the columns of a chunk
    chunks: _core.index.Starts  # the first sequence of each
    # returns the sizes of the sequences in these chunks: samples of the stream that defines the
    # size, if it is one of these, else of the longest
    measure: Callable[[], Sizing]
    resident: bool  # every sequence can be read by itself, at once
    # for every sequence of the corpus its number in these chunks; None: the same
    numbers: NDArray[np.uint64] | None = None
    sample_bytes: float = 0.0  # mean of all streams for one sample, for estimates of memory
    is_parsed: bool = False  # from text or records: numbers may take more bytes than those
    float_bytes: int = 0  # the least that a floating point number takes once it is parsed
    sized_by_streams: bool = True  # False: a sequence is one sample whatever they hold
    load_threads: int = 1  # that load chunks ahead
    holds_stored: bool = False  # while a chunk is loaded it is held as it is stored, too
    open_chunks: int = 1  # that an unshuffled sweep has open at a time
    call_locks: Sequence[CallLock] = ()  # of the user's objects that are called to read it

    @property
    def is_mapped(self) -> bool:
        """True if sequences are mapped on demand, when a minibatch wants them."""
        return False

    @property
    def loads(self) -> _core.index.Starts:
        """The first sequence of all that is loaded at a time, as stored."""
        return self.chunks

    @property
    def part_starts(self) -> NDArray[np.uint64]:
        """The first part of every chunk, and the end; empty: each is loaded as a whole."""
        return np.empty(0, np.uint64)

    @abstractmethod
    def through(self, corpus: Any, chunks: slice, change: Change) -> Reader:
        """Return the same reader of a corpus over changed readers of stored chunks.

        `chunks` are those in the plan that are the corpus', unless it has others.
        """

    @abstractmethod
    def _loader(
        self, load_ahead: bool, led_by: int
    ) -> tuple[_core.read.Deserializer | None, _core.engine.Sequences | None]:
        """Return the loader of stored chunks, or the maker of the sequences."""

    def __repr__(self) -> str:
        return f"Reader({', '.join(info.brief for info in self.streams)})"

    @cached_property
    def sizing(self) -> Sizing:
        """The sizes of the sequences in the chunks."""
        return self.measure()

    def sizes(self) -> NDArray[np.uint32]:
        """Return the size of every sequence of the corpus."""
        stored = _core.index.Corpus(self.chunks, self.sizing.samples, self.sizing.sizes)
        sizes = stored.sizes(0, stored.num_sequences)
        return sizes if self.numbers is None else sizes[self.numbers]

    def take(self, numbers: NDArray[np.uint64]) -> Reader:
        """Return a reader of only these sequences of the corpus, in this order."""
        return replace(self, numbers=numbers if self.numbers is None else self.numbers[numbers])

    @property
    def asks_a_store(self) -> bool:
        """True if loading waits for answers, rather than for this machine."""
        return self.load_threads >= MOST_REQUESTS

    def member(
        self, open_chunks: int, *, load_ahead: bool, led_by: int = 0
    ) -> _core.engine.Member:
        """Return the member of the engine that loads the streams.

        `led_by` are the chunks of the corpus that this one is joined to; 0: it is the first.
        """
        deserializer, made = self._loader(load_ahead, led_by)
        return _core.engine.Member(
            deserializer=deserializer,
            made=made,
            chunk_starts=self.loads,
            part_starts=self.part_starts,
            joined=np.empty(0, np.uint64) if self.numbers is None else self.numbers,
            load_threads=self.load_threads,
            open_chunks=open_chunks,
            in_turns=any(one.is_exclusive for one in self.call_locks),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class StoredReader(Reader):
    """Loads chunks as they are stored."""

    core: _core.read.Deserializer  # loads chunks, or parts of them
    # loads chunks although all is resident: what is faster where there is a window
    chunked: _core.read.Deserializer | None = None
    # the first sequence of every part of a chunk; None: `core` loads whole chunks
    parts: _core.index.Starts | None = None

    @property
    def loads(self) -> _core.index.Starts:
        return self.chunks if self.parts is None else self.parts

    @property
    def part_starts(self) -> NDArray[np.uint64]:
        if self.parts is None:
            return super().part_starts
        starts = np.searchsorted(self.parts.offsets(), self.chunks.offsets())
        return starts.astype(np.uint64)

    def in_window(self) -> StoredReader:
        """Return a reader of the same for a source with an explicit window."""
        if self.chunked is None:
            return self
        return replace(self, core=self.chunked, resident=False, chunked=None)

    def through(self, corpus: Any, chunks: slice, change: Change) -> Reader:
        return change(corpus, self, chunks)

    def _loader(self, load_ahead: bool, led_by: int) -> tuple[_core.read.Deserializer, None]:
        return self.core, None
