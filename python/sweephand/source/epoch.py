"""One sweep to loop over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sweephand import _core
from sweephand.minibatch.minibatch import Minibatch
from sweephand.source.requests import SizeSchedule, size_at

if TYPE_CHECKING:
    from sweephand.source.loops import Loops


class Epoch:
    """One sweep of a source, or the rest of one, in minibatches; see `MinibatchSource.epoch`.

    It may be looped over again: then it is the next sweep.
    """

    def __init__(
        self, source: Loops, size: int | SizeSchedule, workers: int, rank: int
    ) -> None:
        self._source = source
        self._size = size
        self._share = workers, rank
        self._begin: _core.compose.Position | None = None  # of the loop under way
        self._counted: tuple[tuple[int, list[int]], int] | None = None  # where, and the count

    def __iter__(self) -> Iterator[Minibatch]:
        """Iterate from where the source stands to the end of the sweep.

        Raises
        ------
        RuntimeError
            If the source has ended.
        """
        source = self._source
        source._check_not_ended()
        self._begin = source._delivery.position
        end = source._end_of_sweep(self._begin.time)
        try:
            while (time := source._delivery.time) < end:
                request = source._requests.get(
                    size_at(self._size, time), *self._share, crosses_sweeps=False
                )
                minibatch = source._next_of(request)
                if minibatch is None:
                    return
                yield minibatch
        finally:
            self._begin = None

    def __len__(self) -> int:
        """Return the minibatches of the loop under way, or else of the one that comes next.

        They are planned from lengths, once; with equal lengths nothing is.

        Raises
        ------
        TypeError
            If lengths are known only when the data are loaded.
        """
        begin = self._begin or self._source._delivery.position
        place = begin.time, begin.progress
        if self._counted is None or self._counted[0] != place:
            self._counted = place, self._count(begin)
        return self._counted[1]

    def __repr__(self) -> str:
        source = self._source
        return f"Epoch(size={self._size}, of {source!r})"

    def _count(self, begin: _core.compose.Position) -> int:
        source = self._source
        if not source._corpus.sizing.fingerprinted:
            raise TypeError(
                "how many minibatches an epoch has is not known: the lengths of its sequences "
                "are known only when their chunks are loaded"
            )
        end = min(source._end_of_sweep(begin.time), source._timeline.limit)
        equal = source._count_equal(begin.time, end, self._size)
        if equal is not None:
            return equal
        plans = source._timeline.plan(
            begin, self._size, source._requests, *self._share, crosses_sweeps=False
        )
        count = 0
        for plan in plans:
            count += 1
            if plan.next_position.time >= end:
                break
        return count
