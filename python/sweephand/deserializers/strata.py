"""Parts of a corpus that have the same share of every class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.ids import digests_of_names, id_words
from sweephand.maps import SequenceClasses

_Cell = tuple[int, int]  # row, part


def parts_by_class(
    words: NDArray[np.uint64], classes: SequenceClasses, shares: Sequence[Fraction], seed: int
) -> NDArray[np.int64]:
    """Deal the sequences of every class to parts, in the order of their random words.

    Of n sequences a part with the share s gets s·n, rounded up or down (the first of two parts
    to the nearest), and of the m of a class s·m to within one. Classes come in a random order,
    so that those of few sequences are not all rounded to the same part.
    """
    in_order = np.argsort(id_words(digests_of_names(classes.names), seed), kind="stable")
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
            if path := _path(edges, part, ~at):
                return [(at, part), *path]
            for one, other in ((~at, part), (part, ~at)):
                edges.setdefault(one, []).append((other, (at, part)))
    return []


def _path(
    edges: Mapping[int, Sequence[tuple[int, _Cell]]], begin: int, end: int
) -> list[_Cell]:
    """Return the cells between two rows or parts in a forest; none if they are apart."""
    paths: dict[int, list[_Cell]] = {begin: []}
    waiting = [begin]
    while waiting:
        one = waiting.pop()
        for other, cell in edges.get(one, ()):
            if other not in paths:
                paths[other] = [*paths[one], cell]
                waiting.append(other)
    return paths.get(end, [])


def _room(
    rows: Sequence[Sequence[int]], unit: int, raised: list[_Cell], lowered: list[_Cell]
) -> int:
    """Return by how much cells can be raised and others lowered until one is whole."""
    return min(
        *(unit - rows[at][part] % unit for at, part in raised),
        *(rows[at][part] % unit for at, part in lowered),
    )
