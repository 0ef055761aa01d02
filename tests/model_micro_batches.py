"""docs/layouts.md, section 12, in plain Python: who gets which rows."""

from __future__ import annotations

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
