"""Readers of stored chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.reader import Change, Reader
from sweephand.dataclass import dataclass, replace

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus


@dataclass(frozen=True, kw_only=True, repr=False)
class StoredReader(Reader):
    """Loads chunks as they are stored.

    Attributes
    ----------
    core : core object
        Loads chunks, or parts of them.
    chunked : core object or None
        Loads chunks although all is resident: what is faster where there is a window.
    parts : ndarray of uint64, shape (parts,), or None
        Sequences in every part of a chunk, where `core` loads parts; None: it loads chunks.
    """

    core: _core.read.Deserializer
    chunked: _core.read.Deserializer | None = None
    parts: NDArray[np.uint64] | None = None

    @property
    def loads(self) -> NDArray[np.uint64]:
        """Sequences in all that `core` loads at a time: uint64, shape (loads,)."""
        return self.chunk_sequences if self.parts is None else self.parts

    @property
    def part_starts(self) -> NDArray[np.uint64]:
        """The first part of every chunk, and the end; empty: each is loaded as a whole."""
        if self.parts is None:
            return super().part_starts
        starts = np.searchsorted(offsets_of(self.parts), offsets_of(self.chunk_sequences))
        return starts.astype(np.uint64)

    def in_window(self) -> Reader:
        """Return a reader of the same for a source with an explicit window."""
        if self.chunked is None:
            return self
        return replace(self, core=self.chunked, resident=False, chunked=None)

    def stored(self, wanted: str) -> StoredReader:
        """Return the reader."""
        return self

    def through(self, corpus: Corpus, chunks: slice, change: Change) -> Reader:
        """Return the changed reader."""
        return change(corpus, self, chunks)

    def _loader(self, load_ahead: bool, led_by: int) -> tuple[_core.read.Deserializer, None]:
        return self.core, None
