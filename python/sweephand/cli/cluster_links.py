"""Traffic of the links of a cluster, and the time that its loop waits for them.

read so far    asked for, not yet read
---------------|=====|=====|=====|========
               ^ taken     made   a quarter
                 by the    ahead  of the window
                 loop
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand.cli.cluster_hits import ChunkRead

_WITH_HEADERS = 1.03  # of TCP/IP and HTTP, as measured
_MADE_AHEAD = 2  # minibatches, if a source is given no `prefetch`
_OF_WINDOW = 0.25  # see engine/look_ahead.hpp
_MOST_NAP = 0.1  # seconds, and at most half of a step; see engine/engine.cpp
_REQUESTS = 2  # of a chunk: its bytes, and then its object, which is to be the listed one


@dataclass(frozen=True)
class Links:
    """Rates of a cluster's links, in chunks a second, and how its loop reads.

    Attributes
    ----------
    store, node : float
        Of the store, and of each node in each direction; headers take a part of them.
    demand : float
        What all nodes together read.
    window : int
        Chunks that are open at a time.
    step : float
        Chunks of a minibatch, over all nodes.
    in_step : bool
        All lanes come to their next chunks at one time, as all chunks have one size and each
        lane has as many of them; else they come to them in turns.
    request_seconds : float
        From a request to the store to the first byte of its answer, on a link that is idle.
    peer_seconds : float
        The same of another node, which is asked before the store.
    """

    store: float
    node: float
    demand: float
    window: int
    step: float
    in_step: bool = False
    request_seconds: float = 0.0
    peer_seconds: float = 0.0

    @property
    def ahead(self) -> float:
        """Chunks that have been asked for when the loop takes the minibatch before them."""
        return _MADE_AHEAD * self.step + _OF_WINDOW * self.window

    def due(self, number: int) -> int:
        """Return the number of chunks read before the loop needs the next chunk."""
        return number // self.window * self.window if self.in_step else number


class SweepTraffic(NamedTuple):
    """Traffic of a sweep, and the waiting in it.

    Attributes
    ----------
    store : int
        Chunks that the store sends.
    received, sent : ndarray of int64, shape (nodes,)
        By each node.
    waiting : float
        Part of the time, without the wait for the first minibatch of a run.
    """

    store: int
    received: NDArray[np.int64]
    sent: NDArray[np.int64]
    waiting: float


def traffic_of_cluster(
    reads: Iterable[ChunkRead], nodes: int, links: Links
) -> list[SweepTraffic]:
    """Return the traffic of a run, by sweep.

    The loop takes a minibatch as soon as its chunks are there, and works on it at an even rate.
    When it takes one, those that follow are planned, and chunks asked for: at once where it had
    to wait, else after a nap. While the store's link idles, what is due first comes ahead, if
    its owner has room for it.
    """
    wanted = list(reads)
    ahead = _Ahead(wanted)
    num_sweeps = wanted[-1].sweep + 1
    network = _Network(nodes, links, num_sweeps)
    worked, waited = np.zeros(num_sweeps), np.zeros(num_sweeps)
    seconds = links.step / links.demand
    there: list[float] = []  # when each chunk that was asked for is there
    time = asked = 0.0
    num_needed = 0
    for step in range(int(np.ceil(len(wanted) / links.step))):
        taken = step * links.step
        end = len(there)
        while end < len(wanted) and links.due(end) <= taken + links.ahead:
            end += 1
        there += network.ask(ahead.found(len(there), end), asked)
        begin = num_needed
        while num_needed < end and links.due(num_needed) < taken + links.step:
            num_needed += 1
        wait = max(0.0, max(there[begin:num_needed], default=0.0) - time)
        sweep = wanted[int(taken)].sweep
        waited[sweep] += wait if step else 0.0
        worked[sweep] += seconds
        time += wait
        last, asked = asked, time if wait else time + min(_MOST_NAP, seconds / 2)
        ahead.fetch(network, end, taken, last, asked)
        time += seconds
    waiting = waited / (worked + waited)
    return list(
        map(SweepTraffic, network.store, network.received, network.sent, waiting.tolist())
    )


class _Ahead:
    """Reads of a run that come from the store before they are asked for."""

    def __init__(self, wanted: Sequence[ChunkRead]) -> None:
        self._wanted = wanted
        since = [
            (one.room_since, place)
            for place, one in enumerate(wanted)
            if one.room_since is not None and one.room_since < place
        ]
        self._later = sorted(since, reverse=True)  # for which there is no room yet
        self._due: list[int] = []
        self._there: dict[int, float] = {}

    def found(self, begin: int, end: int) -> list[tuple[ChunkRead, float]]:
        """Return reads at the present moment, with the arrival times of those ahead."""
        return [
            (self._wanted[place]._replace(is_held=True), self._there[place])
            if place in self._there
            else (self._wanted[place], 0.0)
            for place in range(begin, end)
        ]

    def fetch(
        self, network: _Network, asked: int, taken: float, time: float, until: float
    ) -> None:
        """Fetch the chunks due first and not asked for, while the store's link idles."""
        while self._later and self._later[-1][0] <= taken:
            heappush(self._due, self._later.pop()[1])
        while self._due and network.store_idles_at < until:
            place = heappop(self._due)
            if place >= asked:
                self._there[place] = network.fetch_ahead(self._wanted[place], time)


class _Network:
    """The links of the store and of all nodes, and their traffic, by sweep."""

    def __init__(self, nodes: int, links: Links, num_sweeps: int) -> None:
        self._store = _Link(links.store)
        self._into, self._out = ([_Link(links.node) for _ in range(nodes)] for _ in range(2))
        self._answered = 0.0  # when all that was asked for but not ahead is there
        self._own_seconds = _REQUESTS * links.request_seconds
        self._peer_seconds = links.peer_seconds
        self.store = [0] * num_sweeps
        shape = num_sweeps, nodes
        self.received, self.sent = np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    @property
    def store_idles_at(self) -> float:
        """When the store has answered all that it was asked for."""
        return max(self._store.free_at, self._answered)

    def fetch_ahead(self, read: ChunkRead, time: float) -> float:
        """Return when a chunk that is fetched ahead is at its owner."""
        self.store[read.sweep] += 1
        self.received[read.sweep, read.owner] += 1
        from_store = self._store.carry(max(time, self._answered)) + self._own_seconds
        return max(from_store, self._into[read.owner].carry(time))

    def ask(self, reads: Sequence[tuple[ChunkRead, float]], time: float) -> list[float]:
        """Return when chunks are there that are asked for at one time, or fetched ahead.

        Those of the store share its link, so that all of them come when the last one does. What
        is another node's part is then given to that node, for which the loop does not wait.
        """
        from_store = 0.0
        for read, _ in reads:
            if not read.is_held:
                asked = time + (self._peer_seconds if read.owner != read.reader else 0.0)
                from_store = self._store.carry(asked) + self._own_seconds
        self._answered = max(self._answered, from_store)
        return [self._ask(read, max(time, at), from_store) for read, at in reads]

    def _ask(self, read: ChunkRead, time: float, from_store: float) -> float:
        if read.is_held:
            is_own = read.owner == read.reader
            if is_own:
                return time
            there = self._pass(read.sweep, read.owner, read.reader, time)
            return there + self._peer_seconds
        self.store[read.sweep] += 1
        self.received[read.sweep, read.reader] += 1
        there = max(from_store, self._into[read.reader].carry(time))
        if read.is_kept and read.owner != read.reader:
            self._pass(read.sweep, read.reader, read.owner, time)
        return there

    def _pass(self, sweep: int, source: int, target: int, time: float) -> float:
        """Return when a chunk that a node sends to another has passed both of their links."""
        self.sent[sweep, source] += 1
        self.received[sweep, target] += 1
        return max(self._out[source].carry(time), self._into[target].carry(time))


class _Link:
    """A link in one direction, which carries one chunk after the other."""

    def __init__(self, rate: float) -> None:
        self._seconds, self.free_at = _WITH_HEADERS / rate, 0.0

    def carry(self, time: float) -> float:
        """Return when a chunk has passed that is sent at a time."""
        self.free_at = max(self.free_at, time) + self._seconds
        return self.free_at
