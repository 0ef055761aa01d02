"""Chunks fetched into a node's cache while the link to the store idles.

    stand -> plan -> is there room? -> a few loads at a time -> entries, due at their next use
              ^                              |
              +------------------------------+

One process of a node does it. Its own reads of the store go first: it begins nothing while one
of them is under way.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand.files.node_cache.ahead_queue import AheadQueue, DueChunk
from sweephand.files.node_cache.ahead_reads import AheadReads
from sweephand.files.node_cache.folder import CacheFolder
from sweephand.files.node_cache.loading import entered
from sweephand.files.node_cache.next_uses import Uses

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_MOST_AT_ONCE = 8
_LOOK_SECONDS = 0.25  # between looks if another process does it no more
_FIRST_REST, _LAST_REST = 1.0, 60.0  # after failures of the store


class FetchAhead:
    """The part of a process in fetching ahead. No thread runs before it has a position.

    Parameters
    ----------
    make_uses : callable
        Returns the future of the chunks, for a thread alone.
    own : callable, optional
        See `AheadQueue`.
    loads : Loads
        May get more until there is a position.
    count : callable
        Is given names of counts, and by how much they grow.
    """

    def __init__(
        self,
        folder: CacheFolder,
        make_uses: Callable[[], Uses],
        own: Callable[[], NDArray[np.bool_]] | None,
        loads: Loads,
        count: Callable[[str, int], None],
    ) -> None:
        self._folder, self._make_uses, self._own = folder, make_uses, own
        self._loads, self._count = loads, count
        self._process, self._changed = os.getpid(), threading.Condition()
        self._keeping = threading.RLock()  # a source may be found to be garbage in it
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        self._now = self._step = self._num_requests = 0
        self._stood = 0.0  # when the position was noted
        self._run_number = 0  # of positions that follow each other
        self._under_way = self._num_changes = 0
        self._pace = LoadPace()
        self._rest, self._rest_until = 0.0, 0.0

    def stand(self, time: int) -> None:
        """Note the nominal time of the source."""
        with self._changed:
            moved, before, self._stood = time - self._now, self._stood, monotonic()
            if 0 < moved <= self._folder.uses.sweep // 2:
                self._step = moved
                self._pace.note_step(self._stood - before)
            elif moved:
                self._step, self._run_number = 0, self._run_number + 1
            self._now = time
            self._note_change()
            if self._thread is None and not self._is_stopped:
                name = "sweephand-fetch-ahead"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    @contextmanager
    def requesting(self) -> Iterator[None]:
        """Begin nothing while a reader waits for a request to the store."""
        with self._changed:
            self._num_requests += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_requests -= 1
                self._note_change()

    def stop(self) -> None:
        """Begin nothing more, and keep nothing more."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._is_stopped = True
            self._note_change()
        with self._keeping:  # until the present write has finished
            pass

    def _note_change(self) -> None:
        self._num_changes += 1
        self._changed.notify_all()

    def _run(self) -> None:
        from concurrent.futures import ThreadPoolExecutor  # only here, as it brings logging

        threads = ThreadPoolExecutor(_MOST_AT_ONCE, "sweephand-ahead-load")
        queue = AheadQueue(self._folder, self._make_uses(), self._own)
        try:
            while self._begin_next(queue, threads):
                pass
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _begin_next(self, queue: AheadQueue, threads: ThreadPoolExecutor) -> bool:
        """Begin to fetch a chunk, or wait for a change; return False at the end."""
        with self._changed:
            if self._is_stopped:
                return False
            now, step, number = self._now, self._step, self._run_number
            is_idle = not self._num_requests and monotonic() >= self._rest_until
            count, num_changes = self._under_way, self._num_changes
        found = None
        if step and is_idle and count < self._pace.at_once:
            found = queue.take(now, step, number, count)
        with self._changed:
            if found is None:
                if num_changes == self._num_changes:
                    self._changed.wait(_LOOK_SECONDS)
                return True
            self._under_way += 1
        try:
            threads.submit(self._fetch, found, number)
        except RuntimeError:  # the interpreter ends
            return False
        return True

    def _fetch(self, chunk: DueChunk, number: int) -> None:
        begin = monotonic()

        def keep(action: Callable[[], bool]) -> bool:
            with self._keeping:
                return not self._is_stopped and number == self._run_number and action()

        reads = AheadReads(self._folder, chunk, keep, self._count)
        is_whole = False
        try:
            with entered(reads):
                for load in self._loads.of(chunk.number):
                    load()
            is_whole = True
        except Exception:  # the reader of the chunk meets and reports the error
            pass
        reads.end()
        with self._changed:
            self._under_way -= 1
            if is_whole:
                self._rest = 0.0
                self._pace.note(monotonic() - begin)
            elif not reads.is_left:
                self._rest = min(max(_FIRST_REST, 2 * self._rest), _LAST_REST)
                self._rest_until = monotonic() + self._rest
            self._note_change()


class Loads:
    """Loads of the chunks of a corpus, by the chunk."""

    def __init__(self) -> None:
        self._all: list[tuple[Callable[[int], object], NDArray[np.uint64]]] = []

    def add(self, load: Callable[[int], object], chunks: NDArray[np.uint64]) -> None:
        """Add a reader's loads, each with the chunk that it is for."""
        self._all.append((load, chunks))

    def of(self, chunk: int) -> Iterator[Callable[[], object]]:
        """Iterate over the loads for a chunk."""
        for load, chunks in self._all:
            for number in np.flatnonzero(chunks == chunk).tolist():
                yield lambda load=load, number=number: load(number)  # type: ignore[misc]


class LoadPace:
    """How much is fetched at a time: more while no load gets slower, or takes long for a step.

    Requests under way delay those that a reader waits for.
    """

    def __init__(self) -> None:
        self.at_once, self._least, self._step = 1, float("inf"), 0.0

    def note_step(self, seconds: float) -> None:
        """Note how long a minibatch took."""
        self._step = min(seconds, 1.05 * self._step) if self._step else seconds

    def note(self, seconds: float) -> None:
        """Note how long a load took."""
        self._least = min(seconds, 1.01 * self._least)  # of late
        if seconds < min(1.5 * self._least, self._step / 2):
            self.at_once = min(self.at_once + 1, _MOST_AT_ONCE)
        else:
            self.at_once = max(1, self.at_once // 2)
