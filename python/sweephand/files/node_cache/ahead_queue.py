"""Queue of chunks to be fetched ahead, by the time they are due."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand.files.node_cache.ahead_plan import AheadPlan, plan_ahead
from sweephand.files.node_cache.folder import Busy, CacheFolder
from sweephand.files.node_cache.next_uses import ALL_LANES, Uses

_PLANS_OF_SWEEP = 64
_PAUSES = 20  # times as long as a plan takes, until the next one
_MOST_BYTES = 64 << 20  # under way at a time, but for one chunk


class DueChunk(NamedTuple):
    """A chunk to fetch, the time when it is due, and the time after which it evicts entries."""

    number: int
    due: int
    limit: int


class AheadQueue:
    """The queue of a process. Not for several threads at once.

    Parameters
    ----------
    own : callable, optional
        Returns of each chunk True if this node is to hold it: bool, shape (chunks,). All nodes
        need these; else it is what its own processes need.
    """

    def __init__(
        self, folder: CacheFolder, uses: Uses, own: Callable[[], NDArray[np.bool_]] | None
    ) -> None:
        self._folder, self._uses, self._own = folder, uses, own
        self._plan: AheadPlan | None = None
        self._run_number = self._at = self._end = 0
        self._bytes, self._samples = 0, 1  # of chunks that are held
        self._next_plan = 0.0
        self._taken: set[int] = set()  # in this sweep

    def take(self, now: int, step: int, run_number: int, under_way: int) -> DueChunk | None:
        """Return the chunk that is due first and not asked for yet, if there is room.

        Parameters
        ----------
        now, step : int
            Nominal time, and the samples of a minibatch.
        run_number : int
            Another one after the position has jumped.
        under_way : int
            Chunks that others are fetching.
        """
        try:
            if not self._folder.leads():
                return None
            plan = self._current_plan(now, step, run_number)
            return None if plan is None else self._first(plan, now, step, under_way)
        except (Busy, OSError):
            return None

    def _first(self, plan: AheadPlan, now: int, step: int, under_way: int) -> DueChunk | None:
        asked_for = now + self._uses.asked_ahead(step)
        while self._at < len(plan.chunks):
            chunk, due = int(plan.chunks[self._at]), int(plan.times[self._at])
            if due > asked_for and chunk not in self._taken:
                samples = (under_way + 1) * int(self._uses.chunk_samples[chunk])
                size = -(-samples * self._bytes // self._samples)
                if under_way and size > _MOST_BYTES:
                    return None
                if not self._folder.has_room_ahead(size, plan.limit):
                    return None
                self._taken.add(chunk)
                return DueChunk(chunk, due, plan.limit)
            self._at += 1
        return None

    def _current_plan(self, now: int, step: int, run_number: int) -> AheadPlan | None:
        plan, has_jumped = self._plan, run_number != self._run_number
        if has_jumped:
            self._plan = plan = None
        moved = max(step, self._uses.sweep // _PLANS_OF_SWEEP)
        is_new = plan is not None and plan.now <= now < min(plan.now + moved, plan.end)
        if is_new or (time.monotonic() < self._next_plan and not has_jumped):
            return plan
        begin = time.monotonic()
        self._plan, self._at, self._run_number = self._make(now), 0, run_number
        end = time.monotonic()
        self._next_plan = end + _PAUSES * (end - begin)
        if self._plan is not None and (has_jumped or self._plan.end != self._end):
            self._end = self._plan.end
            self._taken.clear()
        return self._plan

    def _make(self, now: int) -> AheadPlan | None:
        uses, folder = self._uses, self._folder
        chunks, self._bytes = folder.held_sizes()
        held = np.zeros(len(uses.chunk_samples), bool)
        held[[one for one in chunks if one < len(held)]] = True
        self._samples = int(uses.chunk_samples[held].sum())
        if not self._samples:
            return None  # how many bytes a sample has is not known yet
        room = folder.max_bytes * self._samples // self._bytes
        if self._own is None:
            return plan_ahead(uses, now, folder.readers(), np.ones_like(held), held, room)
        return plan_ahead(uses, now, [ALL_LANES], self._own(), held, room)
