"""Reads of objects by a chunk while it is loaded, whose bytes go into the node's cache."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand.files.cluster.members import Member
from sweephand.files.node_cache.fetch_lock import FetchLock
from sweephand.files.node_cache.loading import RequestedFile

Count = Callable[[str, int], None]
"""Is given the name of a count, and by how much it grows."""


@dataclass(eq=False)
class Fetched:
    """Bytes of an object, with the lock on fetching them; `wanted_by` is another node."""

    file: RequestedFile
    content: NDArray[np.uint8]
    lock: FetchLock
    wanted_by: Member | None = None


class ChunkReads(ABC):
    """Reads of one chunk, by one thread or several.

    What comes from the store is kept once its object is found unchanged.
    """

    def __init__(self, chunk: int, count: Count) -> None:
        self._chunk, self._count = chunk, count
        self._guard = threading.Lock()
        self._waiting: list[Fetched] = []  # to be found unchanged, then kept
        self._asked: set[str] = set()  # objects, since they were looked at

    @abstractmethod
    def fetch(
        self, file: RequestedFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        """Return bytes of an object."""

    @abstractmethod
    def _keep(self, fetched: Fetched) -> None:
        """Keep bytes of the listed object."""

    def check_unchanged(self, file: RequestedFile) -> None:
        """Check that an object is the listed object, and keep the bytes fetched from it.

        No check is made if all came from the cache: its entries are of the listed object.
        """
        with self._guard:
            if file.path not in self._asked:
                return
            self._asked.discard(file.path)
            mine = [one for one in self._waiting if one.file == file]
            self._waiting = [one for one in self._waiting if one not in mine]
        try:
            file.look()
            for one in mine:
                self._keep(one)
        finally:
            for one in mine:
                one.lock.close()

    def end(self) -> None:
        """Release fetched bytes that were not checked."""
        with self._guard:
            left, self._waiting = self._waiting, []
        for one in left:
            one.lock.close()

    def _request(
        self, file: RequestedFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        content = file.request(offset, size, padding)
        self._count("misses", 1)
        self._count("bytes_fetched", size)
        with self._guard:
            self._asked.add(file.path)
        return content

    def _hold(self, fetched: Fetched) -> None:
        """Hold bytes and their lock until their object is found unchanged."""
        with self._guard:
            self._waiting.append(fetched)
