"""Loops over a source: to the end of data, or sweep by sweep."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn, cast

from sweephand import _core
from sweephand.layouts.plain import WholeSequences
from sweephand.minibatch.contents import Contents
from sweephand.minibatch.minibatch import Minibatch
from sweephand.source.epoch import Epoch
from sweephand.source.foreign_names import SIZED, names_ours
from sweephand.source.hints import Hints
from sweephand.source.limits import FULL_DATA_SWEEP
from sweephand.source.questions import Questions
from sweephand.source.requests import Size, SizeSchedule, is_schedule, size_at, size_of
from sweephand.source.way_out import has_way_out

_MANY = 3  # sweeps in one loop
_WRITE = (
    "write `for minibatch in source.epoch(size)`, one sweep a loop, or `for minibatch in "
    "source.minibatches(size)`, to the end of the data"
)
_FOR_TORCH = (
    "a torch loader is sh.torch.DataLoader(sh.torch.IterableDataset(source, size)), with "
    "num_workers= and the like"
)


class Loops(Questions):
    """Delivers minibatches one after the other."""

    _crosses_sweeps: bool
    _contents: Contents
    _hints: Hints
    _has_run_out = False  # a loop over minibatches has come to the end of data

    @names_ours(SIZED)
    def minibatches(
        self, size: Size, *, num_data_partitions: int = 1, partition_index: int = 0
    ) -> Iterator[Minibatch]:
        """Iterate over minibatches until the end of data.

        A source without ``max_sweeps`` or ``max_samples`` has none: leave such a loop by
        ``break``, or take `epoch`. A ``for`` that nothing leaves is hinted at once, by a
        `SweephandHint`.

        Parameters
        ----------
        size : int, str, list or schedule
            Samples in a minibatch over all workers. A list or a text such as ``"128*2 + 1024"``
            is read as `minibatch_size_schedule` does, its epochs are sweeps. A schedule is
            asked for ``size[time]``, the nominal time.
        num_data_partitions, partition_index : int
            As in `next_minibatch`.

        Raises
        ------
        ValueError
            If an argument is wrong.
        """
        sizes = self._sizes(size, num_data_partitions, partition_index)
        return self._loop(sizes, num_data_partitions, partition_index)

    @names_ours(SIZED)
    def epoch(
        self, size: Size, *, num_data_partitions: int = 1, partition_index: int = 0
    ) -> Epoch:
        """Return one sweep from here, or the rest of one, to loop over.

        No minibatch reaches over the end of the sweep. The next loop is the next sweep; after a
        ``break`` the next one goes on behind it. Limits of the source end it sooner.

        Parameters
        ----------
        size : int, str, list or schedule
            As in `minibatches`.
        num_data_partitions, partition_index : int
            As in `next_minibatch`.

        Returns
        -------
        Epoch
            Its ``len()`` is the number of minibatches, found from lengths alone.

        Raises
        ------
        ValueError
            If an argument is wrong.
        RuntimeError
            When a loop begins and the source has ended.

        Examples
        --------
        >>> import numpy as np, sweephand as sh
        >>> source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(5)}))
        >>> for number in range(2):
        ...     epoch = source.epoch(2)
        ...     print(len(epoch), sum(minibatch.num_samples for minibatch in epoch))
        3 5
        3 5
        """
        self._check_has_sweeps("an epoch")
        sizes = self._sizes(size, num_data_partitions, partition_index)
        return Epoch(self, sizes, num_data_partitions, partition_index)

    def _loop(self, sizes: int | SizeSchedule, workers: int, rank: int) -> Iterator[Minibatch]:
        begin = self._delivery.time
        if self._has_run_out and begin >= self._timeline.limit:
            self._hints.give(
                "this loop over minibatches is empty, as an earlier one has come to the end of "
                "the data; for one sweep after the other make the source without max_sweeps "
                "and loop over source.epoch(size), or set source.current_position = 0"
            )
        self._hint_at_repetition(size_at(sizes, begin))
        size = None if is_schedule(sizes) else cast(int, sizes)
        same = None if size is None else self._requests.get(size, workers, rank)
        hint_at = begin + _MANY * self.num_samples_per_sweep if self.is_infinite else None
        early = 0  # minibatches that come before the hint is due
        while True:
            if early:
                early -= 1
            elif hint_at is not None:
                ahead = hint_at - self._delivery.time
                if ahead > 0:
                    early = 0 if size is None else ahead // size
                else:
                    hint_at = None
                    self._hint_at_endlessness(sys._getframe(1))
            request = same or self._requests.get(
                size_at(sizes, self._delivery.time), workers, rank
            )
            minibatch = self._next_of(request)
            if minibatch is None:
                self._has_run_out = True
                return
            yield minibatch

    def _hint_at_endlessness(self, loop: FrameType) -> None:
        """Hint at a loop over minibatches that nothing ends."""
        if not has_way_out(loop):
            self._hints.give(
                "this loop over minibatches has no end, as the source has none; "
                "source.epoch(size) ends with the sweep, MinibatchSource(..., max_sweeps=n) "
                "after n of them, and break where you like"
            )

    def _hint_at_repetition(self, size: int) -> None:
        """Hint at minibatches that hold sequences several times; one full sweep is none."""
        sweep = self.num_samples_per_sweep
        is_larger = sweep < size != FULL_DATA_SWEEP and self._timeline.limit > sweep
        if is_larger and self._crosses_sweeps and isinstance(self._layout, WholeSequences):
            self._hints.give(
                f"a minibatch of {size} samples is larger than the corpus, {sweep}, and holds "
                "sequences of several sweeps; in source.epoch(size) it ends with the sweep. A "
                "size counts samples: rows, tokens, frames"
            )

    def _next_of(self, request: _core.compose.Request) -> Minibatch | None:
        """Return the next minibatch; None at the end of data."""
        batch = self._delivery.next(request)
        return None if batch.end_of_data else Minibatch(batch, self._contents)

    def _sizes(self, size: Size, workers: int, rank: int) -> int | SizeSchedule:
        """Return a size or schedule, whose first size can be served."""
        sizes = size_of(size, self.num_samples_per_sweep)
        self._requests.check(size_at(sizes, self._delivery.time), workers, rank)
        return sizes

    def _end_of_sweep(self, time: int) -> int:
        """Return the nominal time at which the sweep ends that `time` lies in."""
        sweep = self.num_samples_per_sweep
        return (time // sweep + 1) * sweep

    def _check_not_ended(self) -> None:
        """Complain where a loop over a sweep could only be empty."""
        time = self._delivery.time
        if time >= self._timeline.limit:
            raise RuntimeError(
                f"the source has ended, at nominal time {time}, so there is nothing to iterate "
                "over. An iteration is one sweep however many there are: make the source "
                "without max_sweeps, or set source.current_position to go back"
            )

    def _count_equal(self, begin: int, end: int, size: int | SizeSchedule) -> int | None:
        """Return the minibatches of a time if all sequences are of one length, else None."""
        length = self._corpus.core.common_size  # 0: they differ
        if not length or not isinstance(self._layout, WholeSequences):
            return None
        if not isinstance(size, int):
            return None
        sequences = -(-max(0, end - begin) // length)
        return -(-sequences // max(1, size // length))

    def __iter__(self) -> NoReturn:
        raise TypeError(f"a source is not iterated over by itself: {_WRITE}; {_FOR_TORCH}")

    def __next__(self) -> NoReturn:
        raise TypeError(
            "next(source): write source.next_minibatch(size), or next(iter(source.epoch(size)))"
        )

    def __len__(self) -> int:
        raise TypeError(
            "a source has no len(): it has source.num_sequences_per_sweep sequences of "
            "source.num_samples_per_sweep samples, and len(source.epoch(size)) minibatches; "
            f"{_FOR_TORCH}"
        )

    def __bool__(self) -> bool:
        return True
