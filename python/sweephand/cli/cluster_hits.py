"""Where nodes whose caches are one find the chunks that they need, sweep after sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    room_since : int or None
        If it comes from the store: after how many reads of the run the owner has room for it
        that nothing else needs until then. None: not before it is read.
    """

    sweep: int
    reader: int
    owner: int
    is_held: bool
    is_kept: bool
    room_since: int | None = None


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
    reads: list[ChunkRead] = []
    places: list[list[int]] = [[] for _ in range(nodes)]  # of the reads of what each owns
    for sweep in range(sweeps):
        for place, chunk in enumerate(orders[sweep].tolist()):
            owner = int(owner_of[chunk])
            is_held = chunk in kept[owner]
            kept[owner].put(chunk, 1, int(times[sweep + 1][chunk]))
            places[owner].append(len(reads))
            reads.append(ChunkRead(sweep, place % nodes, owner, is_held, chunk in kept[owner]))
    read_chunks = np.concatenate(orders[:sweeps])
    for mine in places:
        since = _room_since([reads[one] for one in mine], read_chunks[mine].tolist(), room)
        for number, place in enumerate(mine):
            if not reads[place].is_held:
                first = reads[place].sweep * chunks
                after = mine[since[number] - 1] + 1 if since[number] else 0
                reads[place] = reads[place]._replace(room_since=max(first, after))
    yield from reads


def _room_since(reads: Sequence[ChunkRead], chunks: Sequence[int], room: int) -> list[int]:
    """Return after how many of an owner's reads there is room for each that it does not hold.

    What is held for its next read takes room from its last one on. The rest of the room takes
    what is read first, and no other chunk leaves for it.
    """
    taken = np.zeros(len(reads) + 1, np.int64)  # before each read
    last: dict[int, int] = {}
    for number, (read, chunk) in enumerate(zip(reads, chunks, strict=True)):
        if read.is_held:
            taken[last[chunk] + 1 : number + 1] += 1
        last[chunk] = number
    since, least, sweep = list(range(len(reads))), 0, 0
    for number, read in enumerate(reads):
        if read.sweep != sweep:
            least, sweep = number, read.sweep
        if read.is_held:
            continue
        begin = number
        while begin > least and taken[begin] < room:
            begin -= 1
        begin += taken[begin] >= room
        least = since[number] = min(int(begin), number)
        taken[since[number] : number + 1] += 1
    return since


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
    """Return the chunks of a corpus that is large enough for this number of nodes."""
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
