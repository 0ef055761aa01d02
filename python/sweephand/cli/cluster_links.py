"""What the links of a cluster carry, and how long its loop waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand.cli.cluster_hits import ChunkRead
from sweephand.dataclass import dataclass

STORE = -1  # in place of the number of a node


@dataclass(frozen=True)
class Links:
    """Rates of a cluster's links, in chunks of a second.

    Attributes
    ----------
    store, node : float
        Of the store, and of each node in each direction.
    demand : float
        What all nodes together read.
    ahead : int
        Chunks that all nodes together ask for before they need them.
    """

    store: float
    node: float
    demand: float
    ahead: int


class SweepTraffic(NamedTuple):
    """Traffic of a sweep, and the waiting in it.

    Attributes
    ----------
    store : int
        Chunks that the store sends.
    received, sent : ndarray of int64, shape (nodes,)
        By each node.
    waiting : float
        Part of the time, without the wait for the first chunk of a run.
    """

    store: int
    received: NDArray[np.int64]
    sent: NDArray[np.int64]
    waiting: float


class _Link:
    """A link in one direction, which carries a chunk after the other."""

    def __init__(self, rate: float) -> None:
        self._seconds, self._free_at, self.carried = 1 / rate, 0.0, 0

    def carry(self, time: float) -> float:
        """Return when a chunk has passed that is sent at a time."""
        self.carried += 1
        self._free_at = max(self._free_at, time) + self._seconds
        return self._free_at


def traffic_of_cluster(
    reads: Iterable[ChunkRead], nodes: int, links: Links
) -> list[SweepTraffic]:
    """Return the traffic of a run, by sweep.

    A loop in step needs the chunks of all nodes at an even rate, and stops where one has not
    come. A chunk is asked for when the loop is `links.ahead` before it; what the store sends for
    another node's part is then given to that node.
    """
    store = _Link(links.store)
    into, out = ([_Link(links.node) for _ in range(nodes)] for _ in range(2))
    reached: list[float] = []  # when the loop gets to each chunk
    borders, counts, sweep = [0], [], 0

    def carried() -> tuple[int, list[int], list[int]]:
        return store.carried, [one.carried for one in into], [one.carried for one in out]

    for place, read in enumerate(reads):
        if read.sweep != sweep:
            sweep = read.sweep
            borders.append(place)
            counts.append(carried())
        asked = reached[place - links.ahead] if place >= links.ahead else 0.0
        there = _pass(read, asked, store, into, out)
        due = reached[-1] + 1 / links.demand if reached else 0.0
        reached.append(max(due, there))
    borders.append(len(reached))
    counts.append(carried())
    reached.append(reached[-1] + 1 / links.demand)
    return _by_sweep(reached, borders, counts, links.demand)


def _pass(
    read: ChunkRead, time: float, store: _Link, into: Sequence[_Link], out: Sequence[_Link]
) -> float:
    """Return when a read that begins at a time ends."""
    is_own = read.owner == read.reader
    if read.is_held and is_own:
        return time
    source = out[read.owner] if read.is_held else store
    there = max(source.carry(time), into[read.reader].carry(time))
    if not read.is_held and not is_own and read.is_kept:
        out[read.reader].carry(there)
        into[read.owner].carry(there)
    return there


def _by_sweep(
    reached: Sequence[float],
    borders: Sequence[int],
    counts: Sequence[tuple[int, list[int], list[int]]],
    demand: float,
) -> list[SweepTraffic]:
    store, into, out = (
        np.diff(np.array([np.zeros_like(one[0]), *one]), axis=0)
        for one in zip(*counts, strict=True)
    )
    found = []
    for sweep, (begin, end) in enumerate(zip(borders, borders[1:], strict=False)):
        took = reached[end] - reached[begin]
        waiting = 1 - (end - begin) / demand / took
        found.append(SweepTraffic(int(store[sweep]), into[sweep], out[sweep], waiting))
    return found
