"""The randomization window: how many chunks are shuffled with each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sweephand.base.checks import check_int
from sweephand.corpus.sizes import MANY_SEQUENCES
from sweephand.source.limits import FULL_DATA_SWEEP

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus, StoredCorpus


class DefaultWindow(int):
    """The type of the default window, distinct from the same number when given."""


DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS = DefaultWindow(128)

# For many sequences of unequal lengths in memory: 2^19 of them are open, so that a place is
# found within milliseconds; in many chunks, so that they come from the whole corpus.
_CHUNK_SEQUENCES = 1024
_OPEN_CHUNKS = 512


@dataclass(frozen=True)
class Window:
    """The randomization window; without chunks and samples all is one block."""

    chunks: int
    samples: int
    explicit: bool

    @classmethod
    def check(cls, randomize: bool, chunks: int, samples: int) -> Self:
        """Return the window that a caller passed; ValueError if invalid, or given twice."""
        check_int("randomization_window_in_chunks", chunks, 0, 2**63)
        if samples != FULL_DATA_SWEEP:
            check_int("randomization_window_in_samples", samples, 0, 2**63)
        explicit = not isinstance(chunks, DefaultWindow) and chunks != 0
        if explicit and samples != 0:
            raise ValueError(
                "give randomization_window_in_chunks or randomization_window_in_samples, "
                "not both"
            )
        if not randomize or samples == FULL_DATA_SWEEP:
            return cls(0, 0, False)
        if chunks == 0 and samples == 0:
            raise ValueError(
                "randomization_window_in_chunks=0 can mean two things: for no shuffling, as in "
                "CNTK, say randomize=False; for the default window leave it out"
            )
        chunks = chunks or DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
        return cls(0 if samples else int(chunks), samples, explicit or samples != 0)

    def of(self, corpus: Corpus) -> Self:
        """Return the window that holds for a corpus.

        By default resident data are one block; but many sequences of unequal lengths, whose
        places could be found only by a pass over all of them, have a window of their own, of
        smaller chunks than those that are read at once.
        """
        has_own = corpus.has_sweeps and corpus.resident
        if self.explicit or not self.chunks or not has_own:
            return self
        is_one = corpus.num_sequences < MANY_SEQUENCES or corpus.core.common_size
        return type(self)(0 if is_one else _OPEN_CHUNKS, 0, False)

    def in_chunks(self, corpus: Corpus) -> Corpus:
        """Return a corpus in the chunks that the window that holds for it counts."""

        def in_own(one: StoredCorpus) -> StoredCorpus:
            has_own = self.of(one).chunks not in (0, self.chunks)
            return one.in_chunks_of(_CHUNK_SEQUENCES) if has_own else one

        return corpus.each(in_own)

    def __str__(self) -> str:
        if self.samples:
            return f"{self.samples} samples"
        return f"{self.chunks} chunks" if self.chunks else "all"
