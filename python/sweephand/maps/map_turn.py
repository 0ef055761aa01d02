"""Which sequences are being mapped, by which thread, and since when."""

from __future__ import annotations

import time
from threading import get_ident
from typing import TYPE_CHECKING

from sweephand.corpus.turns import Turn

if TYPE_CHECKING:
    from sweephand.maps.task import MapTask


class MapTurn(Turn):
    """A turn that any number of threads have at once, and that costs next to nothing."""

    def __init__(self) -> None:
        super().__init__(several=True)
        self._at: dict[int, tuple[MapTask, int, float]] = {}

    def begin(self, task: MapTask, number: int) -> None:
        """Note that this thread calls the map for a sequence of a task."""
        self._at[get_ident()] = task, number, time.monotonic()

    def end(self) -> float:
        """Note that the call is over, and return how long it took, in seconds."""
        _, _, since = self._at.pop(get_ident())
        return time.monotonic() - since

    def at(self, thread: int) -> tuple[int, float] | None:
        """Return which sequence of its task a thread maps, and since when; None: none."""
        found = self._at.get(thread)
        return None if found is None else found[1:]

    @property
    def calls(self) -> list[str]:
        """Names of the running calls."""
        return [task.describe(number) for task, number, _ in list(self._at.values())]
