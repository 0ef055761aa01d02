"""docs/layouts.md, section 12, in plain Python: who gets which rows, and which cells."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

# Rows to micro-batches -----------------------------------------------------------------------


def deal_evenly(costs: Sequence[int], takers: int, most: int) -> list[list[int]]:
    """The things of each taker, in ascending order."""
    taken: list[list[int]] = [[] for _ in range(takers)]
    in_order = sorted(range(len(costs)), key=lambda j: (-costs[j], j))

    def load(taker: int) -> int:
        return sum(costs[j] for j in taken[taker])

    for j in in_order:
        free = [taker for taker in range(takers) if len(taken[taker]) < most]
        taken[min(free, key=lambda taker: (load(taker), taker))].append(j)

    for _ in costs:
        fullest = max(range(takers), key=lambda taker: (load(taker), -taker))
        if load(fullest) * takers * 256 <= sum(costs) * 257:
            break
        for taker in sorted(range(takers), key=lambda taker: (load(taker), taker))[:32]:
            gap = load(fullest) - load(taker)
            nothing = [None] if len(taken[taker]) < most else []
            pairs = [
                (given, back, costs[given] - (0 if back is None else costs[back]))
                for given in in_order
                if given in taken[fullest]
                for back in [*(j for j in in_order if j in taken[taker]), *nothing]
            ]
            pairs = [pair for pair in pairs if 0 < pair[2] < gap]
            if pairs:
                given, back, _ = min(pairs, key=lambda pair: abs(2 * pair[2] - gap))
                taken[fullest].remove(given)
                taken[taker].append(given)
                if back is not None:
                    taken[taker].remove(back)
                    taken[fullest].append(back)
                break
        else:
            break
    return [sorted(mine) for mine in taken]


def micro_batches(
    costs: Sequence[int], workers: int, rank: int, most: int
) -> list[list[int | None]]:
    """The rows of each micro-batch of a worker; None is an empty one."""
    count = -(-len(costs) // (workers * most))
    mine = deal_evenly(costs, workers, count * most)[rank]
    groups = [
        [mine[j] for j in group] for group in deal_evenly([costs[j] for j in mine], count, most)
    ]
    groups.sort(key=lambda group: -sum(costs[j] for j in group))
    return [[*group, *[None] * (most - len(group))] for group in groups]


# Rows to the ranks of a context ---------------------------------------------------------------


def context_owners(
    rows: Sequence[Sequence[int]], length: int, ranks: int, equal_at: int
) -> tuple[list[list[int]], bool]:
    """The rank of every cell of every row of sequences of these sizes; whether they are cut."""
    tried = []
    for least in (0, 128, 16, 1):
        owners = [cut(sizes, length, ranks, least) for sizes in rows]
        loads = [0] * ranks
        for sizes, owner in zip(rows, owners, strict=True):
            places = itertools.chain(*(range(size) for size in sizes))
            for place, rank in zip(places, owner, strict=False):
                loads[rank] += equal_at + 2 * place + 1
        tried.append((max(loads), owners, least > 0))
        if max(loads) * ranks * 128 <= sum(loads) * 129:
            return tried[-1][1:]
    return min(tried, key=lambda one: one[0])[1:]


def cut(sizes: Sequence[int], length: int, ranks: int, least: int) -> list[int]:
    """The rank of every cell of a row."""
    if least == 0:
        return halves(length, ranks, [0] * (2 * ranks))
    owners: list[int | None] = []
    turns = itertools.cycle(range(ranks))
    for size in [*sizes, length - sum(sizes)]:
        if size < 2 * ranks * least or size == 0:
            owners += [None] * size
            continue
        more = [0] * (2 * ranks)
        for _ in range(size % (2 * ranks)):
            rank = next(turns)
            more[2 * ranks - 1 - rank if more[rank] else rank] = 1
        owners += halves(size, ranks, more)
    left = [r for r in range(ranks) for _ in range(length // ranks - owners.count(r))]
    return [left.pop(0) if owner is None else owner for owner in owners]


def halves(size: int, ranks: int, more: Sequence[int]) -> list[int]:
    """Piece i of 2 * ranks to rank i, or on the way back; some have one cell more."""
    owners = []
    for piece, one in enumerate(more):
        owners += [min(piece, 2 * ranks - 1 - piece)] * (size // (2 * ranks) + one)
    return owners
