"""Where nodes whose caches are one find the chunks that they need, sweep after sweep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sweephand.files.cluster.members import Member, Owners
from sweephand.files.node_cache.belady import BeladySet

_LEAST_CHUNKS, _CHUNKS_OF_NODE = 512, 16


class ChunkRead(NamedTuple):
    """Read of a chunk by a node.

    Attributes
    ----------
    sweep, reader : int
        When, and the node that needs it.
    owner : int
        The node that is to hold it.
    is_held : bool
        It does; else the chunk comes from the store.
    is_kept : bool
        It does from now on.
    """

    sweep: int
    reader: int
    owner: int
    is_held: bool
    is_kept: bool


class SweepReads(NamedTuple):
    """Chunks that the nodes read in a sweep, by where they come from."""

    store: int
    own: int
    peers: int


def run_of_cluster(
    nodes: int, chunks: int, room: int, sweeps: int, seed: int
) -> Iterator[ChunkRead]:
    """Yield the reads of a run in the order of their times, by the rules of `NodeCache`.

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
    for sweep in range(sweeps):
        for place, chunk in enumerate(orders[sweep].tolist()):
            owner = int(owner_of[chunk])
            is_held = chunk in kept[owner]
            kept[owner].put(chunk, 1, int(times[sweep + 1][chunk]))
            yield ChunkRead(sweep, place % nodes, owner, is_held, chunk in kept[owner])


def reads_of_cluster(
    nodes: int, chunks: int, room: int, sweeps: int, seed: int
) -> list[SweepReads]:
    """Return the reads of a run, by sweep; see `run_of_cluster`."""
    counts = [dict.fromkeys(SweepReads._fields, 0) for _ in range(sweeps)]
    for read in run_of_cluster(nodes, chunks, room, sweeps, seed):
        near = "own" if read.owner == read.reader else "peers"
        counts[read.sweep][near if read.is_held else "store"] += 1
    return [SweepReads(**count) for count in counts]


def chunks_of_small_run(nodes: int) -> int:
    """Return the chunks of a corpus that is large enough for the parts of so many nodes."""
    return max(_LEAST_CHUNKS, _CHUNKS_OF_NODE * nodes)


def later_parts(nodes: int, part: float, seed: int) -> dict[str, float]:
    """Return of the reads of later sweeps the parts of store, own disk and other nodes.

    Parameters
    ----------
    nodes : int
    part : float
        Of the corpus, that all disks together hold.
    seed : int
    """
    chunks = chunks_of_small_run(nodes)
    _, *later = reads_of_cluster(nodes, chunks, round(part * chunks / nodes), 3, seed)
    total = chunks * len(later)
    names = SweepReads._fields
    return {name: sum(getattr(one, name) for one in later) / total for name in names}
