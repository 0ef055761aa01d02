"""A corpus of some of the sequences of another one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ids import KeptIds
from sweephand.corpus.own_order import DerivedOrder


def keep(corpus: Corpus, kept: NDArray[np.bool_]) -> Corpus:
    """Return the corpus with only some of its sequences; their ids stay as they are.

    Parameters
    ----------
    kept : ndarray of bool, shape (sequences,)
    """
    if kept.all():
        return corpus
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
        keys=None,
        order=order,
    )
