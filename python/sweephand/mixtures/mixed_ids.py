"""Ids of the sequences of a mixture."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.ids import SequenceIds, hash_of, with_length


class MixedIds(SequenceIds):
    """Ids ``<corpus>/<id in it>``."""

    def __init__(
        self,
        names: Sequence[str],
        ids: Sequence[SequenceIds],
        first_sequences: NDArray[np.int64],
    ) -> None:
        self._names = list(names)
        self._ids = list(ids)
        self._firsts = first_sequences

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the sequences with these numbers in the mixture."""
        signed = numbers.astype(np.int64)
        found = np.empty(len(signed), object)
        corpora = self._corpora_of(signed)
        for corpus in np.unique(corpora).tolist():
            places = np.flatnonzero(corpora == corpus)
            own = self._ids[corpus].names(signed[places] - self._firsts[corpus])
            found[places] = [f"{self._names[corpus]}/{one}" for one in own]
        return found.tolist()

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the name of the corpus of each of these sequences."""
        return [self._names[corpus] for corpus in self._corpora_of(numbers.astype(np.int64))]

    def _corpora_of(self, numbers: NDArray[np.int64]) -> NDArray[np.intp]:
        return np.searchsorted(self._firsts, numbers, side="right") - 1

    def fingerprint(self, count: int) -> str:
        """Return the digest that binds the first `count` numbers to their ids, by corpora."""
        ends = np.minimum([*self._firsts[1:].tolist(), count], count)[: len(self._ids)]
        counts = np.maximum(ends - self._firsts[: len(self._ids)], 0).tolist()
        fingerprints = [
            ids.fingerprint(own) for ids, own in zip(self._ids, counts, strict=True)
        ]
        pairs = zip(self._names, fingerprints, strict=True)
        return f"corpora {hash_of(with_length(text) for pair in pairs for text in pair)}"

    def number(self, name: str) -> int:
        """Return the number in the mixture of the sequence with this id."""
        return self._of_corpus(name, lambda ids, own: [ids.number(own)])[0]

    def numbers(self, name: str) -> list[int]:
        """Return the numbers in the mixture of the sequences made of a corpus's sequence."""
        return self._of_corpus(name, lambda ids, own: ids.numbers(own))

    def _of_corpus(
        self, name: str, numbers_of: Callable[[SequenceIds, str], list[int]]
    ) -> list[int]:
        corpus, _, own = name.partition("/")
        if corpus in self._names:
            place = self._names.index(corpus)
            first = int(self._firsts[place])
            try:
                return [first + number for number in numbers_of(self._ids[place], own)]
            except KeyError:
                pass
        raise KeyError(
            f"no sequence has the id {name!r}; those of a mixture are <corpus>/<id>, of the "
            f"corpora {', '.join(self._names)}"
        )
