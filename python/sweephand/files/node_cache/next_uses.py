"""Times at which entries are needed next, by the processes of a node or of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand.files.node_cache.entries import Key
from sweephand.files.node_cache.ranks import Rank

FOREIGN = 1 << 62
"""Added to the times of what another node is to hold: it leaves before all that is own."""

_AT_ONCE = 64  # readers closer than this part of a sweep read at about the same time
ALL_LANES = (1, 0)
"""A reader of all lanes."""


class Uses(Protocol):
    """The future: when chunks are read.

    Attributes
    ----------
    corpus, timeline : int
        Digests of what numbers chunks, and of what says when they come.
    sweep : int
        Samples of a sweep.
    chunk_samples : ndarray of uint64, shape (chunks,)
    """

    corpus: int
    timeline: int
    sweep: int
    chunk_samples: NDArray[np.uint64]

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

    def asked_ahead(self, step: int) -> int:
        """Return how far from its position a source asks for chunks, in nominal time.

        Parameters
        ----------
        step : int
            Samples of a minibatch.
        """


Owns = Callable[[Key, int], bool]
"""Returns True if this node is to hold an entry, for a chunk that it is a part of."""


class NextUses:
    """When entries are needed next.

    Parameters
    ----------
    owns : callable, optional
        Given in a cluster: what this node is to hold is needed by the readers of all nodes.
    """

    def __init__(self, uses: Uses, owns: Owns | None = None) -> None:
        self._uses, self._owns = uses, owns

    def look(
        self, parts: Mapping[Key, Iterable[int]], rank: Rank, peers: Sequence[Rank]
    ) -> dict[Key, int]:
        """Return when entries are needed next, given the chunks that each is a part of."""
        found: dict[Key, int] = {}
        readers = list({rank.reader, *(peer.reader for peer in peers)})
        places = [(key, chunk) for key, chunks in parts.items() for chunk in chunks]
        own = [place for place in places if self._owns is not None and self._owns(*place)]
        foreign = list(set(places) - set(own))
        later = 0 if self._owns is None else FOREIGN
        for some, who, shift in ((own, [ALL_LANES], 0), (foreign, readers, later)):
            if not some:
                continue
            chunks = np.array([chunk for _, chunk in some], np.uint64)
            times = self._uses.next(chunks, rank.time, who, skips_one=False).tolist()
            for (key, _), time in zip(some, times, strict=True):
                found[key] = min(time + shift, found.get(key, time + shift))
        return found

    def after_this(
        self, key: Key, chunk: int, parts: Iterable[int], rank: Rank, peers: Sequence[Rank]
    ) -> int:
        """Return when an entry is needed after the use for which a process loads it.

        Parameters
        ----------
        parts : iterable of int
            All known chunks that the entry is a part of.
        rank : Rank
            Of that process.
        peers : sequence of Rank
            The other processes of this node.
        """
        now, rest = rank.time, sorted(set(parts) - {chunk})
        is_own = self._owns is not None and self._owns(key, chunk)
        reader = ALL_LANES if is_own else rank.reader
        others = [] if is_own else list({peer.reader for peer in peers} - {reader})
        alone = np.array([chunk], np.uint64)
        found = self._uses.next(alone, now, [reader], skips_one=True).tolist()
        if others:
            found += self._uses.next(alone, now, others, skips_one=False).tolist()
        if rest:
            both = np.array(rest, np.uint64)
            found += self._uses.next(both, now, [reader, *others], skips_one=False).tolist()
        # Those with the same data come by when they have caught up.
        behind = [now - peer.time for peer in peers if peer.reader == rank.reader]
        near = [lag for lag in behind if 0 <= lag < self._uses.sweep // 2]
        if near:
            found.append(now + max(near) + self._uses.sweep // _AT_ONCE + 1)
        is_foreign = self._owns is not None and not is_own
        return int(min(found)) + (FOREIGN if is_foreign else 0)
