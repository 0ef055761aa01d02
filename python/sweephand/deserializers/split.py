"""Parts of a corpus, such as training and validation data, drawn by the ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import lcm
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


_Cell = tuple[int, int]  # row, part


def split(
    corpus: SourceData,
    *,
    seed: int = 0,
    by: GroupOf | str | None = None,
    **shares: float | Fraction,
) -> tuple[Deserializer, ...]:
    """Split a corpus by the ids of its sequences, the same way every time.

    The part of a sequence depends on its id, the seed and the shares alone: files may be added,
    and no sequence moves from one part to another. Streams, files and ids stay as
    they are, and a part goes wherever a deserializer goes. How many sequences a part gets is
    near its share of them, but left to chance.

    Parameters
    ----------
    corpus : Deserializer, dict of arrays, or table
        It is opened once by each part.
    seed : int
        In [0, 2^64): another one draws other parts.
    by : str or callable, optional
        The name of a stream with one sample a sequence, a label for instance: every part gets
        its share of each class, and of the corpus, to within one sequence. Labels are looked at
        once, in a pass that is kept beside the index of files. The part of a sequence then
        depends on the rest of its class, too.
        Or a function that, given an id, returns the name of a group whose sequences stay
        together, such as those of one speaker.
    **shares : float or Fraction
        How much of the corpus each part gets, in (0, 1), by its name. ``train`` gets the rest
        if it is not named.

    Returns
    -------
    tuple of Deserializer
        The parts in the order of their names, with ``train`` before them if it was not named.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"x": np.arange(1000)})
    >>> train, validation = sh.split(corpus, validation=0.1)
    >>> [sh.MinibatchSource(part).num_sequences_per_sweep for part in (train, validation)]
    [888, 112]
    >>> data = {"x": np.arange(1000), "label": np.arange(1000) % 10 == 0}
    >>> train, validation = sh.split(data, validation=0.1, by="label")
    >>> labels = sh.MinibatchSource(validation).next_minibatch(100)["label"].values
    >>> len(labels), int(labels.sum())
    (100, 10)
    """
    if by is not None and not isinstance(by, str) and not callable(by):
        raise TypeError(
            "by is the name of a stream, or a function of an id that returns a group, got "
            f"{shown(by)}"
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
        if isinstance(self.by, str):
            kept = self._of_every_class(corpus, self.by, opening)
        else:
            words = _core.base.digest_words(_digests(corpus, self.by), self.seed)
            first, last = self._bounds()
            kept = (words >= np.uint64(first)) & (words <= np.uint64(last))
        if not kept.any():
            raise ValueError(
                f"nothing is left in {self.name}: none of {len(kept)} sequences was drawn; "
                "give it a larger share, or another seed"
            )
        digest = function_digest(self.by) if callable(self.by) else ""
        return corpus.keep(kept).named(with_digest(str(self), digest))

    def _of_every_class(
        self, corpus: Corpus, stream: str, opening: OpenContext
    ) -> NDArray[np.bool_]:
        narrow = self.whole.of_stream(stream)
        looked_at = corpus if narrow is self.whole else narrow.open_for(opening)
        classes = classes_of(looked_at, stream, opening)
        words = _core.base.digest_words(corpus.ids.digests(corpus.num_sequences), self.seed)
        shares = [self.shares[name] for name in self._order]
        shares[-1] = 1 - sum(shares[:-1], Fraction(0))  # three thirds need not be whole
        parts = parts_by_class(words, classes, shares, self.seed)
        return np.equal(parts, self._order.index(self.name))

    @property
    def _order(self) -> list[str]:
        """The parts in the order in which they are drawn."""
        order = [name for name in self.shares if name != _REST] + [_REST]
        return [name for name in order if name in self.shares]

    def _bounds(self) -> tuple[int, int]:
        """Return the first and the last word of the part."""
        shares = [self.shares[name] for name in self._order]
        ends = [int(end * 2**64) for end in accumulate(shares, initial=Fraction(0))]
        ends[-1] = 2**64  # three thirds need not be whole
        at = self._order.index(self.name)
        return ends[at], ends[at + 1] - 1

    def __repr__(self) -> str:
        return f"{self} of {self.whole!r}"

    def __str__(self) -> str:
        """Return the identity of the part, for the fingerprint of a source."""
        others = ", ".join(f"{name}={float(share):g}" for name, share in self.shares.items())
        groups = "groups" if callable(self.by) else self.by
        by = "" if groups is None else f", by {groups}"
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

    Of n sequences a part with the share s gets s·n, rounded up or down (the first of two parts
    to the nearest), and of the m of a class s·m to within one. Classes come in a random order,
    so that those of few sequences are not all rounded to the same part.
    """
    in_order = np.argsort(
        _core.base.digest_words(digests_of_names(classes.names), seed), kind="stable"
    )
    rank = np.argsort(in_order)[classes.numbers]
    counts = np.bincount(rank, minlength=len(classes.names)).tolist()
    dealt = (_in_two if len(shares) == 2 else _in_several)(counts, shares)
    parts = np.empty(len(words), np.int64)
    numbers = np.tile(np.arange(len(shares)), len(counts))
    parts[np.lexsort((words, rank))] = np.repeat(numbers, np.ravel(dealt))
    return parts


def _in_two(counts: Sequence[int], shares: Sequence[Fraction]) -> list[list[int]]:
    """Return the number that each of two parts gets of each count.

    The sums of the first part are its share of those of the counts, rounded.
    """
    share, found, before, total = shares[0], [], 0, 0
    for count in counts:
        total += count
        until = (2 * share.numerator * total + share.denominator) // (2 * share.denominator)
        found.append([until - before, count - (until - before)])
        before = until
    return found


def _in_several(counts: Sequence[int], shares: Sequence[Fraction]) -> list[list[int]]:
    """Return the number that each part gets of each count.

    Each is its share of the count, rounded up or down, and so is the sum of each part: in a
    table whose rows and columns have whole sums, cells that are not whole lie on cycles, along
    which they are raised and lowered in turn until one more is whole.
    """
    unit = lcm(*(share.denominator for share in shares))  # cells are multiples of 1 / unit
    rows = [[int(count * share * unit) for share in shares] for count in counts]
    sums = [-sum(column) for column in zip(*rows, strict=True)]
    open_rows: list[list[int]] = []
    for row in (sums, *rows):
        open_rows.append(row)
        while cycle := _cycle(open_rows, unit):
            raised, lowered = cycle[0::2], cycle[1::2]
            up = _room(open_rows, unit, raised, lowered)
            down = _room(open_rows, unit, lowered, raised)
            by = up if up <= down else -down
            for cells, change in ((raised, by), (lowered, -by)):
                for at, part in cells:
                    open_rows[at][part] += change
        open_rows = [one for one in open_rows if any(cell % unit for cell in one)]
    return [[cell // unit for cell in row] for row in rows]


def _cycle(rows: Sequence[Sequence[int]], unit: int) -> list[_Cell]:
    """Return cells that are not whole, each in the row or the column of the next in turn.

    They are the first that close a cycle, from row to row; none if there is no cycle.
    """
    edges: dict[int, list[tuple[int, _Cell]]] = {}  # of a forest of rows, ~row, and parts
    for at, row in enumerate(rows):
        for part, cell in enumerate(row):
            if cell % unit == 0:
                continue
            paths: dict[int, list[_Cell]] = {part: [(at, part)]}
            waiting = [part]
            while waiting:
                one = waiting.pop()
                for other, crossed in edges.get(one, ()):
                    if other not in paths:
                        paths[other] = [*paths[one], crossed]
                        waiting.append(other)
            if ~at in paths:
                return paths[~at]
            for one, other in ((~at, part), (part, ~at)):
                edges.setdefault(one, []).append((other, (at, part)))
    return []


def _room(
    rows: Sequence[Sequence[int]], unit: int, raised: list[_Cell], lowered: list[_Cell]
) -> int:
    """Return by how much cells can be raised and others lowered until one is whole."""
    return min(
        *(unit - rows[at][part] % unit for at, part in raised),
        *(rows[at][part] % unit for at, part in lowered),
    )
