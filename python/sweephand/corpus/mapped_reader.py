"""A reader of sequences that are made of those of another corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import make_assembler
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import Change, Reader
from sweephand.corpus.streams import StreamInfo

if TYPE_CHECKING:
    from sweephand.corpus.reader import ReadCorpus

Make = Callable[
    [
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint32],
        NDArray[np.uint64],
        _core.engine.Batch,
    ],
    list[_core.read.Chunk],
]
"""Makes sequences: ``make(numbers, sweeps, sizes, places, batch)``, as the core asks for them.

Of sequence ``numbers[places[i]]`` entry ``i`` of the ragged batch is the origin.
"""


@dataclass(frozen=True)
class MappedOrigin:
    """Origin of mapped sequences: the corpus and the function that makes them."""

    corpus: StoredCorpus
    # the sequence of it that each is made of; None: that of the same number
    numbers: NDArray[np.uint64] | None
    make: Make  # makes them
    ledger: Ledger  # where damaged ones are counted

    def mapping(self, load_ahead: bool, led_by: int) -> _core.engine.MappedSequences:
        """Return the engine's mapping."""
        return _core.engine.MappedSequences(
            stored=make_assembler(
                self.corpus,
                ragged_options(),
                no_padding,
                load_ahead=load_ahead,
                led_by=led_by,
                report=self.ledger.report_by(self.corpus.ids),
            ),
            sizes=self.corpus.sizing.sizes,
            num_stored=self.corpus.num_sequences,
            origins=np.empty(0, np.uint64) if self.numbers is None else self.numbers,
            make=self.make,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class MappedReader(Reader):
    """Makes sequences when a minibatch wants them."""

    origin: MappedOrigin  # what they are made of

    @property
    def is_mapped(self) -> bool:
        """True."""
        return True

    @property
    def loads(self) -> _core.index.Starts:
        """The first sequence of all that is loaded at a time, as they are stored."""
        return self.origin.corpus.readers[0].loads

    @property
    def part_starts(self) -> NDArray[np.uint64]:
        """The first part of every chunk, and the end; empty: each is loaded as a whole."""
        return self.origin.corpus.readers[0].part_starts

    def in_window(self) -> Reader:
        """Return the same reader for a source with an explicit window."""
        corpus = self.origin.corpus
        return self._of(corpus.read_by(reader.in_window() for reader in corpus.readers))

    def through(self, corpus: ReadCorpus, chunks: slice, change: Change) -> Reader:
        """Return the same reader over changed readers of stored chunks."""
        inner = self.origin.corpus
        return self._of(
            inner.read_by(reader.through(inner, chunks, change) for reader in inner.readers)
        )

    def _of(self, corpus: StoredCorpus) -> MappedReader:
        origin = replace(self.origin, corpus=corpus)
        return replace(self, origin=origin, resident=corpus.resident)

    def _loader(
        self, load_ahead: bool, led_by: int
    ) -> tuple[None, _core.engine.MappedSequences]:
        return None, self.origin.mapping(load_ahead, led_by)


def ragged_options() -> _core.engine.AssembleOptions:
    """Return the options of the ragged layout."""
    return _core.engine.AssembleOptions(_core.engine.Form.RAGGED, False, 1, False)


def no_padding(info: StreamInfo) -> bytes:
    """Return an element of zeros, for streams that are never padded."""
    dtype: np.dtype[Any] = np.dtype(np.uint8) if info.is_bytes else info.dtype
    return bytes(dtype.itemsize)
