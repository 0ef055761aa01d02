"""Ids of the parts into which sequences are cut."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.ids import SequenceIds


class PartIds(SequenceIds):
    """Ids ``<id of the sequence>#<part>``."""

    def __init__(
        self, ids: SequenceIds, starts: Callable[[], NDArray[np.int64]], noun: str = "sequence"
    ) -> None:
        self._ids, self._starts, self._noun = ids, starts, noun

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the parts with these numbers in the corpus."""
        sequence = self._sequence_of(numbers)
        places = (numbers.astype(np.int64) - self._starts()[sequence]).tolist()
        names = self._ids.names(sequence)
        return [f"{name}#{place}" for name, place in zip(names, places, strict=True)]

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the file or corpus of each of these parts."""
        return self._ids.corpora(self._sequence_of(numbers))

    def _sequence_of(self, numbers: NDArray[np.integer]) -> NDArray[np.intp]:
        return np.searchsorted(self._starts(), numbers.astype(np.int64), side="right") - 1

    def numbers(self, name: str) -> list[int]:
        """Return the number of a part, or of all parts of a sequence."""
        try:
            return [self.number(name)]
        except KeyError:
            starts, sequences = self._starts(), self._ids.numbers(name)
            return [n for one in sequences for n in range(*starts[one : one + 2].tolist())]

    def number(self, name: str) -> int:
        """Return the number in the corpus of the part with this id."""
        sequence, _, text = name.rpartition("#")
        if text.isdecimal() and str(int(text)) == text:
            number = self._ids.number(sequence)
            first, end = self._starts()[number : number + 2].tolist()
            if int(text) < end - first:
                return int(first) + int(text)
        raise KeyError(f"no {self._noun} has the id {name!r}")
