"""Requests between the nodes of a cluster.

::

    GET  /entries/KEY?bytes=&corpus=&timeline=&chunk=&time=&wait=   an entry as its file has it
    PUT  /entries/KEY?bytes=&corpus=&timeline=&chunk=&time=         the same, given to its owner
    GET  /chunks/CORPUS                                             of each chunk one bit

An entry is its head and its content (`node_cache/entries.py`), so that the checksum of the file
is that of the answer. Each answer has the header of this protocol, each request the token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand.files.node_cache.entries import Key

PROTOCOL = "1"
VERSION_HEADER = "Sweephand-Cluster"
WANTED_HEADER = "Sweephand-Wanted"
"""Of an answer without content: the owner would keep the entry if it was given to it."""

MOST_SECONDS = 60.0


@dataclass(frozen=True)
class EntryRequest:
    """An entry that a node needs, or gives.

    Attributes
    ----------
    size : int
        Bytes of the content.
    corpus, timeline, chunk : int
        The use for which it is loaded; see `Uses`.
    time : int
        Nominal time of the node.
    wait : float
        Seconds that it waits for an entry that another node is fetching; with 0 it takes what
        is there, and gives nothing.
    """

    key: Key
    size: int
    corpus: int
    timeline: int
    chunk: int
    time: int
    wait: float = 0.0

    @property
    def path(self) -> str:
        """Path and query of its URL."""
        return (
            f"/entries/{self.key.hex()}?bytes={self.size}&corpus={self.corpus}"
            f"&timeline={self.timeline}&chunk={self.chunk}&time={self.time}&wait={self.wait:g}"
        )

    @classmethod
    def of(cls, key: str, query: Mapping[str, str]) -> EntryRequest:
        """Return the request of a URL.

        Raises
        ------
        ValueError
            If it is malformed.
        """
        number = {
            name: int(query.get(name, ""))
            for name in ("bytes", "corpus", "timeline", "chunk", "time")
        }
        if len(key) != 32 or not all(0 <= value < 2**64 for value in number.values()):
            raise ValueError("no entry is named like this")
        size = number.pop("bytes")
        wait = float(query.get("wait", 0))
        if not 0 <= wait <= MOST_SECONDS:
            raise ValueError("wait is no number of seconds")
        return cls(bytes.fromhex(key), size, **number, wait=wait)


@dataclass(frozen=True)
class FoundEntry:
    """Outcome of a search for an entry.

    Attributes
    ----------
    content : ndarray of uint8, or None
    is_wanted : bool
        It is absent, and will be kept if the node that asked gives it.
    is_coming : bool
        It is absent, and is being fetched.
    """

    content: NDArray[np.uint8] | None = None
    is_wanted: bool = False
    is_coming: bool = False


@dataclass(frozen=True)
class PeerLimits:
    """Limits of the work of members for each other.

    Attributes
    ----------
    seconds : float
        That a request may take.
    max_bytes : int
        That are under way at a time, in each direction.
    """

    seconds: float = 2.0
    max_bytes: int = 256 << 20
