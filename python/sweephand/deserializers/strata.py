"""Parts of a corpus that have the same share of every class."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.id_words import digests_of_names, id_words
from sweephand.maps.sequence_classes import SequenceClasses


def parts_by_class(
    words: NDArray[np.uint64], classes: SequenceClasses, shares: Sequence[Fraction], seed: int
) -> NDArray[np.int64]:
    """Deal the sequences of every class to parts, in the order of their random words.

    Of n sequences a part with the share s gets s·n, rounded, and of the m of a class s·m to
    within one. Classes come in a random order, so that those of few sequences are not all
    rounded to the same part.

    Parameters
    ----------
    words : ndarray of uint64, shape (sequences,)
        The random words of the ids.
    shares : sequence of Fraction
        Of the parts; the last one gets the rest.
    """
    in_order = np.argsort(id_words(digests_of_names(classes.names), seed), kind="stable")
    rank = np.argsort(in_order)[classes.numbers]
    sequences = np.lexsort((words, rank))
    left = np.bincount(rank, minlength=len(classes.names)).tolist()
    begins = np.concatenate([[0], np.cumsum(left)[:-1]]).tolist()
    parts = np.full(len(words), len(shares) - 1, np.int64)
    rest = Fraction(1)
    for part, share in enumerate(shares[:-1]):
        taken = _taken(left, share / rest)
        for at, count in enumerate(taken):
            parts[sequences[begins[at] : begins[at] + count]] = part
            begins[at] += count
            left[at] -= count
        rest -= share
    return parts


def _taken(counts: Sequence[int], share: Fraction) -> list[int]:
    """Return the number taken of each count; sums are the shares, rounded."""
    found, before, total = [], 0, 0
    for count in counts:
        total += count
        until = (2 * share.numerator * total + share.denominator) // (2 * share.denominator)
        found.append(until - before)
        before = until
    return found
