"""Parts of a corpus, such as training and validation data, drawn by the ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ids import digests_of_names
from sweephand.deserializers.array import SourceData, single_corpus
from sweephand.deserializers.deserializer import DerivedDeserializer, Deserializer
from sweephand.errors import shown
from sweephand.maps import (
    OpenContext,
    SequenceClasses,
    classes_of,
    function_digest,
    with_digest,
)

GroupOf = Callable[[str], str]

_REST = "train"
_ROUND = 1 << 20
_NEARLY = Fraction(1, 10**9)  # as near as decimals come to thirds


def split(
    corpus: SourceData,
    *,
    seed: int = 0,
    by: GroupOf | str | None = None,
    **shares: float | Fraction,
) -> tuple[Deserializer, ...]:
    """Split a corpus by the ids of its sequences, the same way every time.

    The part of a sequence depends on its id, the seed and the shares alone, so files that are
    added move no sequence, and the size of a part is near its share, but left to chance.

    Parameters
    ----------
    corpus : Deserializer, dict of arrays, or table
        It is opened once by each part.
    seed : int
        In [0, 2^64): another one draws other parts.
    by : str or callable, optional
        The name of a stream with one sample a sequence, a label for instance: each of n parts
        gets its share of every class, and of the corpus, to within n - 1 sequences. The part of
        a sequence then depends on the rest of its class, too.
        Or a function that, given an id, returns the name of a group whose sequences stay
        together, such as those of one speaker.
    **shares : float or Fraction
        How much of the corpus each part gets, in (0, 1), by its name; ``train``, if it is not
        named, gets the rest and comes first.

    Returns
    -------
    tuple of Deserializer
        The parts in the order of their names.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"x": np.arange(1000)})
    >>> train, validation = sh.split(corpus, validation=0.1)
    >>> [sh.MinibatchSource(part).num_sequences_per_sweep for part in (train, validation)]
    [888, 112]
    """
    if by is not None and not isinstance(by, str) and not callable(by):
        raise TypeError(
            f"by is the name of a stream, or a function from an id to a group, got {shown(by)}"
        )
    whole = single_corpus(corpus, "split")
    check_int("seed", seed, 0, 2**64)
    wanted = _checked(shares)
    return tuple(_Part(whole, name, wanted, seed, by) for name in wanted)


def _checked(shares: dict[str, float | Fraction]) -> dict[str, Fraction]:
    """Return the shares as they were written, in decimals; `train` is the last of them."""
    if not shares:
        raise ValueError("split needs the share of a part, such as validation=0.1")
    found = {}
    for name, share in shares.items():
        try:
            fraction = share if isinstance(share, Fraction) else Fraction(repr(float(share)))
        except (TypeError, ValueError):
            fraction = Fraction(0)
        if not 0 < fraction < 1:
            raise ValueError(f"{name} must be a share between 0 and 1, got {shown(share)}")
        found[name] = fraction
    total = sum(found.values(), Fraction(0))
    if _REST not in found:
        if total >= 1:
            raise ValueError(f"nothing is left for {_REST}: the shares add up to {total}")
        return {_REST: 1 - total, **found}
    if abs(total - 1) > _NEARLY:
        raise ValueError(
            f"the shares add up to {float(total):g}, not 1; without {_REST}= it gets the rest"
        )
    return found


@dataclass(frozen=True, repr=False)
class _Part(DerivedDeserializer):
    """One part of a corpus."""

    whole: Deserializer
    name: str
    shares: dict[str, Fraction]
    seed: int
    by: GroupOf | str | None

    def open_for(self, opening: OpenContext) -> Corpus:
        """Open the corpus, and keep the sequences of this part."""
        corpus = self.whole.open_for(opening)
        order = sorted(self.shares, key=lambda name: name == _REST)  # in which parts are drawn
        at = order.index(self.name)
        shares = [self.shares[name] for name in order]
        shares[-1] = 1 - sum(shares[:-1], Fraction(0))  # three thirds need not be whole
        if isinstance(self.by, str):
            narrow = self.whole.of_stream(self.by)
            looked_at = corpus if narrow is self.whole else narrow.open_for(opening)
            classes = classes_of(looked_at, self.by, opening)
            words = _core.base.digest_words(corpus.ids.digests(corpus.num_sequences), self.seed)
            kept = np.equal(parts_by_class(words, classes, shares, self.seed), at)
        else:
            words = _core.base.digest_words(_digests(corpus, self.by), self.seed)
            ends = [int(end * 2**64) for end in accumulate(shares, initial=Fraction(0))]
            kept = (words >= np.uint64(ends[at])) & (words <= np.uint64(ends[at + 1] - 1))
        if not kept.any():
            raise ValueError(
                f"nothing is left in {self.name}: none of {len(kept)} sequences was drawn; "
                "give it a larger share, or another seed"
            )
        digest = function_digest(self.by) if callable(self.by) else ""
        return corpus.keep(kept).named(with_digest(str(self), digest))

    def __repr__(self) -> str:
        return f"{self} of {self.whole!r}"

    def __str__(self) -> str:
        """Return the identity of the part, for the fingerprint of a source."""
        others = ", ".join(f"{name}={float(share):g}" for name, share in self.shares.items())
        by = f", by {'groups' if callable(self.by) else self.by}" if self.by else ""
        return f"{self.name} of split({others}, seed={self.seed}{by})"


def _digests(corpus: Corpus, by: GroupOf | None) -> NDArray[np.uint64]:
    """Return the digest of every id, or of the name of its group."""
    count = corpus.num_sequences
    if by is None:
        return corpus.ids.digests(count)
    parts = [np.empty(0, np.uint64)]
    for begin in range(0, count, _ROUND):
        numbers = np.arange(begin, min(begin + _ROUND, count), dtype=np.uint64)
        groups: list[Any] = [by(name) for name in corpus.ids.names(numbers)]
        if odd := [one for one in groups if not isinstance(one, str)]:
            raise TypeError(
                f"by must return the name of a group as str, got {type(odd[0]).__name__}"
            )
        parts.append(digests_of_names(groups))
    return np.concatenate(parts)


def parts_by_class(
    words: NDArray[np.uint64], classes: SequenceClasses, shares: Sequence[Fraction], seed: int
) -> NDArray[np.int64]:
    """Deal the sequences of every class to parts, in the order of their random words.

    One part after the other is cut off what those before it left. Classes come in a random
    order, so that those of few sequences are not all rounded to the same part.
    """
    in_order = np.argsort(
        _core.base.digest_words(digests_of_names(classes.names), seed), kind="stable"
    )
    rank = np.argsort(in_order)[classes.numbers]
    left = np.bincount(rank, minlength=len(classes.names))
    dealt = []
    for part, share in enumerate(shares[:-1]):
        share /= 1 - sum(shares[:part], Fraction(0))
        up, of = 2 * share.numerator, 2 * share.denominator
        ends = [(up * end + share.denominator) // of for end in np.cumsum(left).tolist()]
        dealt.append(np.diff(ends, prepend=0))
        left = left - dealt[-1]
    parts = np.empty(len(words), np.int64)
    numbers = np.tile(np.arange(len(shares)), len(left))
    parts[np.lexsort((words, rank))] = np.repeat(numbers, np.stack([*dealt, left], 1).ravel())
    return parts
