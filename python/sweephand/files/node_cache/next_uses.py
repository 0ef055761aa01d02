"""Times at which entries are needed next, by the processes of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand.files.node_cache.entries import Key
from sweephand.files.node_cache.ranks import Rank

_AT_ONCE = 64  # readers closer than this part of a sweep read at about the same time


class Uses(Protocol):
    """The future: when chunks are read."""

    # digests of what numbers chunks, and of what says when they come
    corpus: int
    timeline: int
    sweep: int  # samples of a sweep

    def next(
        self,
        chunks: NDArray[np.uint64],
        time: int,
        readers: Sequence[tuple[int, int]],
        *,
        skips_one: bool,
    ) -> NDArray[np.uint64]:
        """Return when each is read next after a time; see ``_core.order.ChunkUses``.

        Readers are pairs: how many workers there are, and which of them reads.
        """


class NextUses:
    """The next uses of entries."""

    def __init__(self, uses: Uses) -> None:
        self._uses = uses

    def look(
        self, parts: Mapping[Key, Iterable[int]], rank: Rank, peers: Sequence[Rank]
    ) -> dict[Key, int]:
        """Return when entries are needed next, given the chunks that each is a part of."""
        found: dict[Key, int] = {}
        readers = list({rank.reader, *(peer.reader for peer in peers)})
        places = [(key, chunk) for key, chunks in parts.items() for chunk in chunks]
        if not places:
            return found
        chunks = np.array([chunk for _, chunk in places], np.uint64)
        times = self._uses.next(chunks, rank.time, readers, skips_one=False).tolist()
        for (key, _), time in zip(places, times, strict=True):
            found[key] = min(time, found.get(key, time))
        return found

    def after_this(
        self, chunk: int, parts: Iterable[int], rank: Rank, peers: Sequence[Rank]
    ) -> int:
        """Return when an entry is needed after the use for which a process loads it."""
        now, rest = rank.time, sorted(set(parts) - {chunk})
        reader = rank.reader
        others = list({peer.reader for peer in peers} - {reader})
        alone = np.array([chunk], np.uint64)
        found = self._uses.next(alone, now, [reader], skips_one=True).tolist()
        if others:
            found += self._uses.next(alone, now, others, skips_one=False).tolist()
        if rest:
            both = np.array(rest, np.uint64)
            found += self._uses.next(both, now, [reader, *others], skips_one=False).tolist()
        # Those with the same data come by when they have caught up.
        lags = [now - peer.time for peer in peers if peer.reader == rank.reader]
        near = [lag for lag in lags if 0 <= lag < self._uses.sweep // 2]
        if near:
            found.append(now + max(near) + self._uses.sweep // _AT_ONCE + 1)
        return int(min(found))
