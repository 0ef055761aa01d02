"""What the links of a cluster carry, and how long its loop waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand.cli.cluster_hits import ChunkRead
from sweephand.dataclass import dataclass

_WITH_HEADERS = 1.03  # of TCP/IP and HTTP, as measured


@dataclass(frozen=True)
class Links:
    """Rates of a cluster's links, in chunks a second.

    Attributes
    ----------
    store, node : float
        Of the store, and of each node in each direction; headers take a part of them.
    demand : float
        What all nodes together read.
    lanes : int
        Chunks that are open at a time. As chunks are of one size, all lanes come to their next
        at about the same time; they ask for it when they begin with the one before.
    """

    store: float
    node: float
    demand: float
    lanes: int


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
    """A link in one direction, which carries one chunk after the other."""

    def __init__(self, rate: float) -> None:
        self._seconds, self._free_at, self.carried = _WITH_HEADERS / rate, 0.0, 0

    def carry(self, time: float) -> float:
        """Return when a chunk has passed that is sent at a time."""
        self.carried += 1
        self._free_at = max(self._free_at, time) + self._seconds
        return self._free_at


def traffic_of_cluster(
    reads: Iterable[ChunkRead], nodes: int, links: Links
) -> list[SweepTraffic]:
    """Return the traffic of a run, by sweep.

    The loop goes on at an even rate, and stops where a chunk that it needs has not come. What
    the store sends of another node's part is given to that node before it is used.
    """
    store = _Link(links.store)
    into, out = ([_Link(links.node) for _ in range(nodes)] for _ in range(2))

    def carried() -> list[NDArray[np.int64]]:
        return [np.array([one.carried for one in some]) for some in ([store], into, out)]

    asked = due = 0.0  # when the lanes ask for their next chunks, and when they need them
    found, before, is_first = [], carried(), True
    for _, of_sweep in groupby(reads, lambda read: read.sweep):
        worked = waited = 0.0
        while some := list(islice(of_sweep, links.lanes)):
            there = max([_pass(read, asked, store, into, out) for read in some])
            waited += 0.0 if is_first else max(0.0, there - due)
            asked = max(there, due)
            worked += len(some) / links.demand
            due = asked + len(some) / links.demand
            is_first = False
        after = carried()
        from_store, received, sent = (new - old for new, old in zip(after, before, strict=True))
        waiting = waited / (worked + waited)
        found.append(SweepTraffic(int(from_store[0]), received, sent, waiting))
        before = after
    return found


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
        return max(out[read.reader].carry(there), into[read.owner].carry(there))
    return there
