"""The current list of members, and the owners that follow from it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sweephand.files.cluster.members import Member, Owners
from sweephand.files.node_cache.next_uses import Uses

_NOBODY = -1


class Roster:
    """Members of a cluster, owners of entries, and members that hold other owners' entries.

    Parameters
    ----------
    members : callable
        Returns them as they are now.
    own : Member
        This node, which need not be one of them any more.
    """

    def __init__(
        self, members: Callable[[], Sequence[Member]], own: Member, uses: Uses
    ) -> None:
        self._ask, self.own, self._uses = members, own, uses
        self._guard = threading.Lock()
        self._seen: Sequence[Member] = ()
        self._set(tuple(members()))

    def look(self) -> bool:
        """Look at the list again; return True if it has changed."""
        seen = self._ask()
        if seen is self._seen or tuple(seen) == tuple(self._seen):
            return False
        self._set(tuple(seen))
        return True

    def _set(self, members: Sequence[Member]) -> None:
        owners = Owners(members or [self.own], self._uses.chunk_samples, self._uses.corpus)
        with self._guard:
            self._seen, self._owners = members, owners
            self._strays: NDArray[np.int64] | None = None

    @property
    def others(self) -> list[Member]:
        """The other members."""
        return [one for one in self._owners.members if one.name != self.own.name]

    def owns(self, key: bytes, chunk: int) -> bool:
        """Return True if this node is to hold an entry."""
        return self.owner(key, chunk).name == self.own.name

    def owner(self, key: bytes, chunk: int) -> Member:
        """Return the member that is to hold an entry."""
        return self._owners.of(key, chunk)

    def to_fetch(self) -> NDArray[np.bool_]:
        """Return True for each chunk that this node is to hold and no other node holds.

        Until the members have reported their entries, any chunk may be held by another node.
        """
        with self._guard:
            strays, owners = self._strays, self._owners
        names = [one.name for one in owners.members]
        if strays is None or self.own.name not in names:
            return np.zeros(len(self._uses.chunk_samples), bool)
        is_stray: NDArray[np.bool_] = strays != _NOBODY
        return owners.owned_by(names.index(self.own.name)) & ~is_stray

    def stray(self, chunk: int) -> Member | None:
        """Return a member that held a chunk of another owner when the list changed."""
        with self._guard:
            strays, members = self._strays, self._owners.members
        if strays is None or chunk >= len(strays) or strays[chunk] == _NOBODY:
            return None
        return members[int(strays[chunk])]

    def note_held(self, held: Mapping[str, bytes]) -> None:
        """Note of members, by their names, which chunks they hold."""
        count = len(self._uses.chunk_samples)
        strays = np.full(count, _NOBODY)
        for index, member in enumerate(self._owners.members):
            bits = np.frombuffer(held.get(member.name, b""), np.uint8)
            holds = np.unpackbits(bits, count=count).astype(bool)
            owned = self._owners.owned_by(index)
            strays[holds & ~owned] = index
            strays[holds & owned] = _NOBODY
        with self._guard:
            self._strays = strays
