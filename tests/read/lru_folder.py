"""A cache's folder that keeps what was used last: the policy of caches without a future."""

from __future__ import annotations

import itertools

from sweephand.files.node_cache import folder
from sweephand.files.node_cache.belady import BeladySet, Item

_FAR = 1 << 62


class LatestSet(BeladySet[Item]):
    """Entries of which the one leaves that was used longest ago, whatever comes next."""

    def __init__(self, room: int) -> None:
        super().__init__(room)
        self._uses = itertools.count()

    def set(self, item: Item, size: int, time: int) -> None:
        """Note that an item is used now."""
        super().set(item, size, _FAR - next(self._uses))

    def has_room(self, size: int, time: int) -> bool:
        """Return True: what is new is kept."""
        return True

    def find_after(self, limit: int, size: int) -> list[Item] | None:
        """Return None: nothing leaves for what is not used yet."""
        return None

    def take_overdue(self, now: int) -> list[Item]:
        """Return nothing, as nothing is due."""
        return []


def keep_the_latest() -> None:
    """Have the folders that are opened in this process from now on do so."""
    folder.BeladySet = LatestSet  # type: ignore[misc,assignment]
