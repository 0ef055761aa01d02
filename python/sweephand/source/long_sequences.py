"""Sequences that are longer than a layout holds: refused, cut, or left out, and counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sweephand import _core
from sweephand.corpus.join import Joined
from sweephand.layouts.base import Layout


@dataclass(frozen=True)
class LongSequences:
    """What a layout did to sequences that it does not hold, per sweep."""

    dropped_sequences: int = 0
    dropped_samples: int = 0
    split_sequences: int = 0
    split_samples: int = 0


def treat_long(
    layout: Layout, joined: Joined, corpus: _core.index.Corpus
) -> tuple[Joined, LongSequences]:
    """Return the corpus that the layout serves, and what became of long sequences.

    Raises
    ------
    ValueError
        If there are some and the layout refuses them, or if nothing is left.
    """
    limit = layout.length_limit
    if limit is None:
        return joined, LongSequences()
    found = _core.index.find_long(corpus, limit.longest)
    if found.num_sequences == 0:
        return joined, LongSequences()
    counts = (found.num_sequences, found.num_samples)
    if limit.policy == "split":
        return joined, LongSequences(0, 0, *counts)
    longest = joined.ids.names(np.array([found.sequence], np.uint64))[0]
    told = (
        f"{found.num_sequences} of {corpus.num_sequences} sequences have more samples than "
        f"{limit.what}; the longest is {longest!r} with {found.size}"
    )
    if limit.policy == "error":
        raise ValueError(f"{told}; {limit.advice}")
    if found.num_sequences == corpus.num_sequences:
        raise ValueError(f"nothing is left: {told}")
    sizes = corpus.sizes(0, corpus.num_sequences)
    return joined.keep(sizes <= limit.longest), LongSequences(*counts)
