"""Workers of maps: the calling thread, threads, or processes."""

from __future__ import annotations

import os
import pickle
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.reader import CallLock

R_co = TypeVar("R_co", covariant=True)

if TYPE_CHECKING:  # protocols cost time at every start
    from typing import Protocol

    from sweephand.maps.quicker import Quicker
    from sweephand.run.pool import Pool, Task
    from sweephand.run.progress import Progress

    class WorkerTask(Task, Protocol[R_co]):
        """Task that the caller may carry out as well as a worker."""

        @property
        def fingerprint(self) -> str:
            """The function, by which tasks that take equally long are known."""

        def do(self, progress: Progress) -> R_co:
            """Return the result."""


Kind = Literal["threads", "processes"]

# The most tasks per worker. A message to a process costs more than half a millisecond if
# tasks take long: all that both sides need for it has left the caches by then.
_TASKS_PER_WORKER = {"threads": 4, "processes": 2}
_SHORT_SECONDS = 2e-4  # a sequence, up to which threads may cost more than they gain
_FIRST_SECONDS = 1.0  # that a first sequence may take; nothing else waits beside it
# The least seconds of a task that is worth sending to an idle worker, and to a busy worker.
_TASK_SECONDS = {"threads": (2e-4, 2e-4), "processes": (1e-3, 2e-2)}


class MapWorkers:
    """Workers that carry out tasks; the results do not depend on their number.

    The workers start with the first task, so that a process that was forked before has its own.

    Parameters
    ----------
    num_workers : int
        0: the calling thread does the work.
    kind : {"threads", "processes"}
    limit : float or None
        Seconds after which a map that was called for a sequence is given up.

    Attributes
    ----------
    call_lock : CallLock
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
        self.call_lock = CallLock(several=True)
        self._limit = limit
        self._quicker: dict[str, Quicker] = {}  # of maps
        self._pool: Pool | None = None
        self._end: Callable[[], object] | None = None  # of the pool
        self._process = 0  # that the pool is of
        self._is_closed = False
        self._starting = threading.Lock()
        if self._has_processes:
            from sweephand.run.processes import refuse_in_preparation

            refuse_in_preparation()

    @property
    def _has_processes(self) -> bool:
        return self.kind == "processes" and self.num_workers > 0

    @property
    def _may_stay(self) -> bool:
        """True if the caller may do tasks that are not worth their way to a worker.

        Not if it must be possible to give it up, nor if the user wants one call at a time.
        """
        return self.kind == "threads" and self.num_workers > 1 and self._limit is None

    def check(self, wanted: object) -> None:
        """Refuse a map that the workers could not call.

        TypeError if it does not pickle, where processes are to call it.
        """
        if self._has_processes:
            _check_pickles(wanted)

    def run(self, task: WorkerTask[R_co], costs: NDArray[np.float64]) -> list[R_co]:
        """Map sequences, those first that take longest; the parts come in their order."""
        if self.num_workers == 0 or len(task) == 0:
            return self._map_here(task)
        cost, (least, _) = float(costs.sum()), _TASK_SECONDS[self.kind]
        if cost < least and self._may_stay:
            return self._map_here(task)
        if cost >= _SHORT_SECONDS * len(task) or not self._may_stay:
            return self._hand_over(task, costs)
        from sweephand.maps.quicker import Quicker

        quicker = self._quicker.setdefault(task.fingerprint, Quicker())
        is_here, begin = quicker.is_here(), time.monotonic()
        made = self._map_here(task) if is_here else self._hand_over(task, costs)
        quicker.add((time.monotonic() - begin) / len(task), is_here=is_here)
        return made

    def _map_here(self, task: WorkerTask[R_co]) -> list[R_co]:
        from sweephand.run.progress import Progress

        return [_carry_out(self.call_lock, task, Progress())]

    def _hand_over(self, task: WorkerTask[R_co], costs: NDArray[np.float64]) -> list[R_co]:
        bounds = cut(costs.tolist(), self._num_tasks(float(costs.sum())))
        parts = [task.part(begin, end) for begin, end in bounds]
        return self._own_pool().run(
            parts, [float(costs[begin:end].sum()) for begin, end in bounds]
        )

    def _num_tasks(self, cost: float) -> int:
        """Return the number of tasks for work that takes a number of seconds."""
        least, enough = _TASK_SECONDS[self.kind]
        for_all = min(self.num_workers, int(cost / least))
        most = self.num_workers * _TASKS_PER_WORKER[self.kind]
        return max(1, for_all, min(most, int(cost / enough)))

    def run_first(self, task: WorkerTask[R_co]) -> R_co:
        """Map the first sequences: by a worker if that can be given up, else here."""
        if self._has_processes or (self.num_workers and self._limit is not None):
            return self._own_pool().run([task], [_FIRST_SECONDS])[0]  # type: ignore[no-any-return]
        return self._map_here(task)[0]

    def close(self) -> None:
        """End the workers: threads after their running tasks, processes soon."""
        with self._starting:
            self._is_closed = True
            if self._end is not None:
                self._end()

    def has_ended(self, seconds: float) -> bool:
        """Wait up to `seconds` for closed workers, and return True if they have ended."""
        pool = self._pool
        return pool is None or self._process != os.getpid() or pool.has_ended(seconds)

    def _own_pool(self) -> Pool:
        with self._starting:
            if self._is_closed:
                raise RuntimeError("the source is closed; make a new one")
            if self._pool is None or self._process != os.getpid():
                self._pool = self._begin()
                self._process = os.getpid()
                # A pool that was not closed ends with the last reference to these workers.
                self._end = weakref.finalize(self, _end, self._process, self._pool)
            return self._pool

    def _begin(self) -> Pool:
        from sweephand.run.pool import Pool

        if self._has_processes:
            from sweephand.run.processes import ForkServer, ProcessWorker

            server = ForkServer(self._limit)
            make_process = partial(ProcessWorker, server, {})
            return Pool(self.num_workers, make_process, self._limit, server.close)
        from sweephand.run.pool import ThreadWorker

        make_thread = partial(
            ThreadWorker, "sweephand-map", partial(_carry_out, self.call_lock)
        )
        return Pool(self.num_workers, make_thread, self._limit)


def _end(process: int, pool: Pool) -> None:
    if process == os.getpid():  # and not one that was forked from it
        pool.close()


def _check_pickles(wanted: object) -> None:
    """Refuse a map that worker processes could not find."""
    from sweephand.run.processes import preparation

    advice = (
        "define it by def at the top of a module that can be imported, or write "
        "map_executor='threads'"
    )
    try:
        found = pickle.dumps(wanted)
    except Exception as error:
        raise TypeError(
            f"{wanted} does not pickle, and processes must find it ({error}); {advice}"
        ) from error
    if b"__main__" in found and not preparation():
        raise TypeError(
            f"{wanted} is of a main module that has no file, so processes do not find it; "
            f"{advice}"
        )


class _RunningTask:
    """Name of a task that is carried out, by the sequence that is mapped."""

    def __init__(self, task: Task, progress: Progress) -> None:
        self._task = task
        self._progress = progress

    def __str__(self) -> str:
        number, _ = self._progress.at
        return self._task.describe(number or 0)


def _carry_out(call_lock: CallLock, task: WorkerTask[R_co], progress: Progress) -> R_co:
    with call_lock.hold(_RunningTask(task, progress)):
        return task.do(progress)


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
