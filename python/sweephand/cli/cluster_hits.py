"""Where nodes whose caches are one find the chunks that they need, sweep after sweep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sweephand.files.cluster.members import Member, Owners
from sweephand.files.node_cache.belady import BeladySet

_LEAST_CHUNKS, _CHUNKS_OF_NODE = 512, 16


class SweepReads(NamedTuple):
    """Chunks that the nodes read in a sweep, by where they come from."""

    store: int
    own: int
    peers: int


def reads_of_cluster(
    nodes: int, chunks: int, room: int, sweeps: int, seed: int
) -> list[SweepReads]:
    """Return the reads of a run, by the rules of `NodeCache` with peers.

    Every sweep is another permutation, which the nodes read in turns. Room that chunks of other
    owners fill where disks hold more than their part is left out.

    Parameters
    ----------
    nodes : int
    chunks : int
        Of the corpus, of one size.
    room : int
        Chunks that fit on the disk of a node.
    sweeps, seed : int
    """
    members = [Member("", 0, 1, f"node {number}") for number in range(nodes)]
    owners = Owners(members, np.ones(chunks, np.uint64), seed)
    owned = [np.flatnonzero(owners.owned_by(index)) for index in range(nodes)]
    owner_of = np.empty(chunks, np.int64)
    for index, own in enumerate(owned):
        owner_of[own] = index
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(chunks) for _ in range(sweeps + 1)]
    times = [np.argsort(order) + number * chunks for number, order in enumerate(orders)]
    kept = [BeladySet[int](room) for _ in range(nodes)]
    found = []
    for sweep in range(sweeps):
        counts = {"store": 0, "own": 0, "peers": 0}
        for place, chunk in enumerate(orders[sweep].tolist()):
            owner = int(owner_of[chunk])
            near = "own" if owner == place % nodes else "peers"
            counts[near if chunk in kept[owner] else "store"] += 1
            kept[owner].put(chunk, 1, int(times[sweep + 1][chunk]))
        found.append(SweepReads(**counts))
    return found


def later_parts(nodes: int, part: float, seed: int) -> dict[str, float]:
    """Return of the reads of later sweeps the parts of store, own disk and other nodes.

    Parameters
    ----------
    nodes : int
    part : float
        Of the corpus, that all disks together hold.
    seed : int
    """
    chunks = max(_LEAST_CHUNKS, _CHUNKS_OF_NODE * nodes)
    _, *later = reads_of_cluster(nodes, chunks, round(part * chunks / nodes), 3, seed)
    total = chunks * len(later)
    names = SweepReads._fields
    return {name: sum(getattr(one, name) for one in later) / total for name in names}
