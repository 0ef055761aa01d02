"""Workers of maps: the calling thread, threads, or processes."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.turns import Turn
from sweephand.maps.progress import Progress, carry_out
from sweephand.maps.quicker import Quicker

if TYPE_CHECKING:
    from sweephand.maps.sequence_map import SequenceMap
    from sweephand.maps.task import MapResult, MapTask
    from sweephand.maps.team import Team, Worker

Kind = Literal["threads", "processes"]

_TASKS_PER_WORKER = 4
_SHORT_SECONDS = 2e-4  # a sequence, up to which threads may cost more than they gain
_FIRST_SECONDS = 1.0  # that a first sequence may take; nothing else waits beside it
# What a task must take to be worth its way to a worker, in seconds.
_TASK_SECONDS = {"threads": 2e-4, "processes": 1e-3}


class MapWorkers:
    """Workers that carry out tasks; the results do not depend on their number.

    The workers start with the first task, so that a process that was forked before has its own.

    Parameters
    ----------
    num_workers : int
        0: whoever asks does the work.
    kind : {"threads", "processes"}
    limit : float or None
        Seconds after which a map that was called for a sequence is given up.

    Attributes
    ----------
    turn : Turn
        Which names the running calls of the functions of the user.

    Raises
    ------
    RuntimeError
        If they are to be processes, and this one is a worker process that begins.
    """

    def __init__(
        self, num_workers: int, kind: Kind = "threads", limit: float | None = None
    ) -> None:
        self.num_workers = num_workers
        self.kind = kind
        self.turn = Turn(several=True)
        self._limit = limit
        self._quicker = Quicker()
        self._team: Team | None = None
        self._end: Callable[[], object] | None = None  # of the team
        self._process = 0  # that the team is of
        self._is_closed = False
        self._starting = threading.Lock()
        if self._has_processes:
            _refuse_in_nursery()

    @property
    def _has_processes(self) -> bool:
        return self.kind == "processes" and self.num_workers > 0

    @property
    def _may_stay(self) -> bool:
        """True if the caller may do tasks that are not worth their way to a worker.

        Not if it must be possible to give it up, nor if the user wants one call at a time.
        """
        return self.kind == "threads" and self.num_workers > 1 and self._limit is None

    def check(self, wanted: SequenceMap) -> None:
        """Refuse a map that the workers could not call.

        Raises
        ------
        TypeError
            If it does not pickle, where processes are to call it.
        """
        if self._has_processes:
            from sweephand.maps.worker_process import check_pickles

            check_pickles(wanted)

    def run(self, task: MapTask, costs: NDArray[np.float64]) -> list[MapResult]:
        """Map sequences, those first that take longest; the parts come in their order.

        Parameters
        ----------
        task : MapTask
        costs : ndarray of float64, shape (sequences,)
            How long each sequence may take, in seconds.
        """
        least, cost = _TASK_SECONDS[self.kind], float(costs.sum())
        if self.num_workers == 0 or len(task) == 0 or (cost < least and self._may_stay):
            return [self._carry_out(task)]
        if cost >= _SHORT_SECONDS * len(task) or not self._may_stay:
            return self._hand_over(task, costs)
        is_here, begin = self._quicker.is_here(), time.monotonic()
        made = [self._carry_out(task)] if is_here else self._hand_over(task, costs)
        self._quicker.add((time.monotonic() - begin) / len(task), is_here=is_here)
        return made

    def _carry_out(self, task: MapTask) -> MapResult:
        return carry_out(task, Progress(), self.turn)

    def _hand_over(self, task: MapTask, costs: NDArray[np.float64]) -> list[MapResult]:
        least, cost = _TASK_SECONDS[self.kind], float(costs.sum())
        most = min(self.num_workers * _TASKS_PER_WORKER, max(1, int(cost / least)))
        bounds = cut(costs.tolist(), most)
        parts = [task.part(begin, end) for begin, end in bounds]
        return self._own_team().do(
            parts, [float(costs[begin:end].sum()) for begin, end in bounds]
        )

    def run_first(self, task: MapTask) -> MapResult:
        """Map the first sequences: by a worker if that can be given up, else here."""
        if self._has_processes or (self.num_workers and self._limit is not None):
            return self._own_team().do([task], [_FIRST_SECONDS])[0]
        return self._carry_out(task)

    def close(self) -> None:
        """End the workers: threads after their running tasks, processes soon."""
        with self._starting:
            self._is_closed = True
            if self._end is not None:
                self._end()

    def has_ended(self, seconds: float) -> bool:
        """Wait up to `seconds` for closed workers, and return True if they have ended."""
        team = self._team
        return team is None or self._process != os.getpid() or team.has_ended(seconds)

    def _own_team(self) -> Team:
        with self._starting:
            if self._is_closed:
                raise RuntimeError("the source is closed; make a new one")
            if self._team is None or self._process != os.getpid():
                self._begin()
            assert self._team is not None
            return self._team

    def _begin(self) -> None:
        from sweephand.maps.team import Team, ThreadWorker  # brings futures, and so logging

        make: Callable[[], Worker] = partial(ThreadWorker, self.turn)
        end: Callable[[], None] = _do_nothing
        if self._has_processes:
            from sweephand.maps.nursery_process import Nursery
            from sweephand.maps.worker_process import WorkerProcess

            nursery = Nursery(self._limit)
            make, end = partial(WorkerProcess, nursery), nursery.close
        self._team = Team(self.num_workers, make, self._limit)
        self._process = os.getpid()
        # What nobody closed ends when nobody has it any more.
        self._end = weakref.finalize(self, _end, self._process, self._team, end)


def _end(process: int, team: Team, end: Callable[[], None]) -> None:
    if process == os.getpid():  # and not one that was forked from it
        team.close()
        end()


def _do_nothing() -> None:
    pass


def _refuse_in_nursery() -> None:
    nursery = sys.modules.get("sweephand.maps.nursery")
    if nursery is not None and nursery.prepares_main:
        raise RuntimeError(
            "a main module that begins map workers is run again by them; put what it does "
            "under `if __name__ == '__main__':`, or write map_executor='threads'"
        )


def cut(costs: Sequence[float], most: int) -> list[tuple[int, int]]:
    """Cut a row of costs into about equal ranges, of which there are `most`, or a few more.

    Examples
    --------
    >>> cut([1, 1, 1, 1, 20, 1], 3)
    [(0, 4), (4, 5), (5, 6)]
    """
    limit = sum(costs) / most
    bounds = []
    begin, total = 0, 0.0
    for end, cost in enumerate(costs):
        if begin < end and total + cost > limit:
            bounds.append((begin, end))
            begin, total = end, 0.0
        total += cost
    return [*bounds, (begin, len(costs))]
