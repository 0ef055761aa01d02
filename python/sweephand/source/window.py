"""The randomization window: how many chunks are shuffled with each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sweephand.checks import check_int


class DefaultWindow(int):
    """The window that holds unless one is given."""


DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS = DefaultWindow(128)


@dataclass(frozen=True)
class Window:
    """The randomization window; 0 means not given."""

    chunks: int
    samples: int
    explicit: bool

    @classmethod
    def check(cls, randomize: bool, chunks: int, samples: int) -> Self:
        """Return the window that a caller passed; ValueError if it is none, or two."""
        check_int("randomization_window_in_chunks", chunks, 0, 2**63)
        check_int("randomization_window_in_samples", samples, 0, 2**63)
        explicit = not isinstance(chunks, DefaultWindow) and chunks != 0
        if explicit and samples != 0:
            raise ValueError(
                "give randomization_window_in_chunks or randomization_window_in_samples, "
                "not both"
            )
        if not randomize:
            return cls(0, 0, False)
        if chunks == 0 and samples == 0:
            raise ValueError(
                "randomization_window_in_chunks=0 can mean two things: for no shuffling, as in "
                "CNTK, say randomize=False; for the default window leave it out"
            )
        chunks = chunks or DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
        return cls(0 if samples else int(chunks), samples, explicit or samples != 0)

    def for_corpus(self, resident: bool) -> Self:
        """Return the window that holds: without an explicit one resident data are one block."""
        return type(self)(0, 0, False) if resident and not self.explicit else self

    def __str__(self) -> str:
        if self.samples:
            return f"{self.samples} samples"
        return f"{self.chunks} chunks" if self.chunks else "all"
