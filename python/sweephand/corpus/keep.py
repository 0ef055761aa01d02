"""A corpus of a selection of another corpus's sequences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.corpus import Corpus, Keys
from sweephand.corpus.ids import KeptIds
from sweephand.corpus.own_order import DerivedOrder


class KeptNumbers:
    """Join keys of sequences that are joined by their numbers in the corpus they were taken of.

    Parameters
    ----------
    numbers : ndarray of uint64, shape (sequences,)
    """

    def __init__(self, numbers: NDArray[np.uint64]) -> None:
        self._numbers = numbers

    def __call__(self) -> NDArray[np.int64]:
        """Return the numbers."""
        return self._numbers.astype(np.int64)


def _kept_keys(keys: Keys | None, numbers: NDArray[np.uint64]) -> Keys:
    """Return the join keys of the sequences that are kept."""
    if keys is None:
        return KeptNumbers(numbers)
    if isinstance(keys, KeptNumbers):
        return KeptNumbers(keys().astype(np.uint64)[numbers])

    def kept_keys() -> NDArray[np.int64] | list[str]:
        found = keys()
        return (
            [found[n] for n in numbers.tolist()] if isinstance(found, list) else found[numbers]
        )

    return kept_keys


def keep(corpus: Corpus, kept: NDArray[np.bool_]) -> Corpus:
    """Return the corpus with only the kept sequences; ids and join keys stay as they are.

    Parameters
    ----------
    kept : ndarray of bool, shape (sequences,)
    """
    if kept.all():
        return corpus
    if corpus.mixing is not None:
        return corpus.mixing.keep(kept)
    numbers = np.flatnonzero(kept).astype(np.uint64)
    ends = np.searchsorted(numbers, np.cumsum(corpus.chunk_sequences))
    order = corpus.order
    if order is not None:
        new_numbers = (np.cumsum(kept) - 1).astype(np.uint64)
        order = DerivedOrder(
            order, len(kept), lambda sequences: new_numbers[sequences[kept[sequences]]]
        )
    return replace(
        corpus,
        readers=[reader.take(numbers) for reader in corpus.readers],
        ids=KeptIds(corpus.ids, numbers),
        chunks=np.diff(ends, prepend=0).astype(np.uint64),
        keys=_kept_keys(corpus.keys, numbers),
        order=order,
    )
