"""Positions of the processes of a node: 32 bytes each, and a lock held while one lives."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from sweephand.run.locks import ByteLocks, Descriptor

MOST_RANKS = 1024
_FIRST = 1 << 21  # the bytes that are locked, one for each
_RANK = struct.Struct("<QQII8x")


class Rank(NamedTuple):
    """Position of a process: its nominal time and its share of the data."""

    timeline: int
    time: int
    num_partitions: int
    partition_index: int

    @property
    def reader(self) -> tuple[int, int]:
        """The share of the process: number of partitions, and its index."""
        return self.num_partitions, self.partition_index


class Ranks(Descriptor):
    """The processes that use a folder, this process included.

    Parameters
    ----------
    path : Path
        A file, made if need be.
    lock : ByteLocks
        Holds the place of this process.

    Attributes
    ----------
    number : int or None
        Of this process; None where there was no place left.
    """

    def __init__(self, path: Path, lock: ByteLocks) -> None:
        self._lock = lock
        super().__init__(path, os.O_CREAT)
        places = range(MOST_RANKS)
        self.number = next((one for one in places if lock.lock(_FIRST + one)), None)

    def publish(self, rank: Rank) -> None:
        """Publish the position of this process."""
        os.pwrite(self._fd, _RANK.pack(*rank), (self.number or 0) * _RANK.size)

    def lives(self, number: int) -> bool:
        """Return True if a number is that of another process, which has not ended."""
        return number < MOST_RANKS and self._lock.is_locked(_FIRST + number)

    def peers(self, timeline: int) -> list[Rank]:
        """Return the positions of the other processes of a timeline."""
        stored = os.pread(self._fd, MOST_RANKS * _RANK.size, 0)
        ranks = enumerate(map(Rank._make, _RANK.iter_unpack(stored)))
        return [
            rank
            for number, rank in ranks
            if (rank.timeline == timeline and rank.num_partitions > 0)
            and number != self.number
            and self.lives(number)
        ]

    def leave(self) -> None:
        """Release its place."""
        if self.number is not None:
            self._lock.unlock(_FIRST + self.number)
