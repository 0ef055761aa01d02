"""How often a node finds a chunk that it needs in its cache, sweep after sweep."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from sweephand.files.node_cache.belady import BeladySet

CHUNKS = 512  # of the corpus that is simulated
_ACCESSES = 12_000


def needs(nodes: int, seed: int) -> NDArray[np.int64]:
    """Return the chunks that each of `nodes` nodes needs, in order, over many sweeps.

    In every sweep each node gets an equal part of the chunks, and not the same as before.
    """
    rng = np.random.default_rng(seed)
    part = max(1, CHUNKS // nodes)
    sweeps = -(-_ACCESSES // part)
    return np.concatenate([rng.permutation(CHUNKS)[:part] for _ in range(sweeps)])


def hits_of_known_future(order: NDArray[np.int64], room: int) -> float:
    """Return the hit rate of a cache that keeps the soonest needed, as `NodeCache` does."""
    never = len(order)
    following, seen = np.full(never, never), np.full(CHUNKS, never)
    for j in range(never - 1, -1, -1):
        following[j], seen[order[j]] = seen[order[j]], j
    kept, hits = BeladySet[int](room), 0
    for j, chunk in enumerate(order.tolist()):
        hits += _counts(j, never) and chunk in kept
        kept.put(chunk, 1, int(following[j]))
    return hits / (never - never // 4)


def hits_of_lru(order: NDArray[np.int64], room: int) -> float:
    """Return the hit rate of a cache that drops the least recently used."""
    kept: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for j, chunk in enumerate(order.tolist()):
        hits += _counts(j, len(order)) and chunk in kept
        kept[chunk] = None
        kept.move_to_end(chunk)
        if len(kept) > room:
            kept.popitem(last=False)
    return hits / (len(order) - len(order) // 4)


def _counts(j: int, total: int) -> bool:
    """Return True if a need is counted: the first quarter fills the cache."""
    return j >= total // 4
