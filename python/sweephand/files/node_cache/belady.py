"""Eviction by the future: entries that are needed soonest stay."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class BeladySet(Generic[Item]):
    """Choose the items that stay in bounded room, by the time of their next use (Belady).

    Parameters
    ----------
    room : int
        What the sizes of all that are kept may add up to.

    Examples
    --------
    >>> kept = BeladySet[str](room=2)
    >>> kept.put("a", 1, time=5), kept.put("b", 1, time=9)
    ([], [])
    >>> kept.put("c", 1, time=7), kept.put("d", 1, time=8)
    (['b'], ['d'])
    >>> sorted(kept)
    ['a', 'c']
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.used = 0
        self._items: dict[Item, tuple[int, int]] = {}  # size, time
        # (time, number, item) of all items, and of some that are gone or have another time now.
        self._latest: list[tuple[int, int, Item]] = []
        self._soonest: list[tuple[int, int, Item]] = []
        self._number = 0

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item, size: int, time: int) -> list[Item]:
        """Keep an item, or update its next use if it is kept; return those that leave.

        The item itself is one of them where everything else is needed sooner.
        """
        self.set(item, size, time)
        return self.take_farthest()

    def set(self, item: Item, size: int, time: int) -> None:
        """Note an item, though there may be no room for it."""
        self.discard(item)
        self._items[item] = size, time
        self.used += size
        self._number += 1  # of those that are needed at one time the latest leaves
        heapq.heappush(self._latest, (-time, -self._number, item))
        heapq.heappush(self._soonest, (time, self._number, item))
        self._forget_the_gone()

    def take_farthest(self) -> list[Item]:
        """Return those that leave until the rest fits, the last needed first."""
        leaving = []
        while self.used > self.room:
            farthest, _, last = heapq.heappop(self._latest)
            if self.time_of(last) == -farthest:
                self.discard(last)
                leaving.append(last)
        return leaving

    def discard(self, item: Item) -> None:
        """Forget an item, if it is there."""
        if item in self._items:
            self.used -= self._items.pop(item)[0]

    def time_of(self, item: Item) -> int | None:
        """Return when an item is needed next, None if it is not here."""
        return self._items[item][1] if item in self._items else None

    def size_of(self, item: Item) -> int:
        """Return the size of an item that is here."""
        return self._items[item][0]

    def take_overdue(self, now: int) -> list[Item]:
        """Return the items whose time has passed, each once; they stay until they are put."""
        found = []
        while self._soonest and self._soonest[0][0] <= now:
            time, _, item = heapq.heappop(self._soonest)
            if self.time_of(item) == time:
                found.append(item)
        return found

    def _forget_the_gone(self) -> None:
        most = 4 * len(self._items) + 64
        if max(len(self._latest), len(self._soonest)) <= most:
            return
        both = [(time, i, one) for i, (one, (_, time)) in enumerate(self._items.items())]
        self._number = len(both)
        self._soonest = both
        self._latest = [(-time, -i, one) for time, i, one in both]
        heapq.heapify(self._soonest)
        heapq.heapify(self._latest)
