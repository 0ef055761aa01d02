"""Threads that carry out tasks in the order in which they must begin."""

from __future__ import annotations

import heapq
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from sweephand.corpus.turns import Turn
from sweephand.errors import SweephandHint
from sweephand.maps.lost import Lost
from sweephand.maps.progress import Progress, carry_out
from sweephand.maps.task import MapResult, MapTask

_HINT_SECONDS = 60.0
_SILENT_SECONDS = 30.0  # that a worker may be at something else than a map, beyond the limit
_LOOK_SECONDS = 5.0  # between looks at what takes long


class Worker(Protocol):
    """Worker that carries out tasks for a thread."""

    def do(self, task: MapTask) -> MapResult:
        """Return the result of a task; `Lost` if it does not come back."""

    def at(self) -> tuple[int | None, float] | None:
        """Return which sequence of its task is mapped, and since when.

        In place of the sequence comes None if nothing was heard since then.
        """

    @property
    def is_stopped(self) -> bool:
        """True if it is stopped by a signal, and does nothing until it is continued."""

    def give_up(self, lost: Lost | None = None) -> bool:
        """End the running task, and return True if that is possible."""

    def close(self) -> None:
        """Release its resources."""


class ThreadWorker:
    """Calls maps in the thread itself."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._progress = Progress()

    def do(self, task: MapTask) -> MapResult:
        """Return the result of a task."""
        return carry_out(task, self._progress, self._turn)

    def at(self) -> tuple[int | None, float] | None:
        """Return which sequence of its task is mapped, and since when."""
        number, since = self._progress.at
        return None if number is None else (number, since)

    @property
    def is_stopped(self) -> bool:
        """Return False: a thread stops with its process."""
        return False

    def give_up(self, lost: Lost | None = None) -> bool:
        """Return False: a thread cannot be ended."""
        return False

    def close(self) -> None:
        """Do nothing."""


@dataclass
class Piece:
    """Sequences that are mapped together.

    Attributes
    ----------
    lost : Lost or None
        Why they were given up.
    was_tried : bool
        Whether a worker ended that had them.
    """

    task: MapTask
    lost: Lost | None = None
    was_tried: bool = False

    def without(self, lost: Lost) -> list[Piece]:
        """Return the pieces that it is cut into when it did not come back."""
        task = self.task
        if not lost.is_late and not self.was_tried:
            return [Piece(task, was_tried=True)]  # it may have been an accident
        if len(task) == 1:
            return [Piece(task, lost)]
        if task.map.batched or lost.number is None:
            return [Piece(task.part(number, number + 1)) for number in range(len(task))]
        begin, end = lost.number, lost.number + 1
        bounds = [(0, begin), (begin, end), (end, len(task))]
        return [
            Piece(task.part(*ends), lost if lost.is_late else None, was_tried=True)
            if ends == (begin, end)
            else Piece(task.part(*ends))
            for ends in bounds
            if ends[0] < ends[1]
        ]


@dataclass
class Job:
    """A task on its way: its results so far, and the pieces to do."""

    pieces: list[Piece]
    made: list[MapResult] = field(default_factory=list)
    future: Future[list[MapResult]] = field(default_factory=Future)


@dataclass(eq=False)
class _Member:
    """A thread of the team, and its current job."""

    thread: threading.Thread | None = None
    worker: Worker | None = None
    job: Job | None = None


class Team:
    """Threads that begin tasks by deadline.

    The minibatches that are wanted are due one after the other, each so much later as its
    tasks take; a task must begin so long before its minibatch is due as it takes. So a slow
    sequence of a later minibatch may begin before the quick ones of an earlier one, and nobody
    waits for it.

    Parameters
    ----------
    size : int
        Threads.
    make_worker : callable
        Returns what a thread does tasks by; it is called there.
    limit : float or None
        Seconds after which a map that was called for a sequence is given up.
    """

    def __init__(
        self, size: int, make_worker: Callable[[], Worker], limit: float | None = None
    ) -> None:
        self._size = size
        self._make_worker = make_worker
        self._limit = limit
        self._has_hinted = False
        self._waiting: list[tuple[float, int, Job]] = []  # a heap
        self._numbers = count()
        self._asked = 0.0  # what all tasks so far cost
        self._is_closed = False
        self._changed = threading.Condition()
        self._members: list[_Member] = []
        for _ in range(size):
            self._begin(_Member())

    def do(self, tasks: Sequence[MapTask], costs: Sequence[float]) -> list[MapResult]:
        """Carry out tasks, and return the results of each, in one part or several.

        Raises
        ------
        RuntimeError
            If the team is closed.
        """
        asked = [Job([Piece(task)]) for task in tasks]
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the source is closed; make a new one")
            self._asked += sum(costs)
            due = self._asked / self._size
            for job, cost in zip(asked, costs, strict=True):
                heapq.heappush(self._waiting, (due - cost, next(self._numbers), job))
            self._changed.notify(len(tasks))
        try:
            return [made for job in asked for made in self._result(job)]
        except CancelledError:
            raise RuntimeError("the source is closed; make a new one") from None
        except BaseException:
            for job in asked:
                job.future.cancel()
            raise

    def close(self) -> None:
        """Let the threads end after their running tasks; the rest is cancelled."""
        with self._changed:
            self._is_closed = True
            for *_, job in self._waiting:
                job.future.cancel()
            self._waiting.clear()
            members = list(self._members)
            self._changed.notify_all()
        for member in members:
            if member.worker is not None:
                member.worker.give_up()

    def has_ended(self, seconds: float) -> bool:
        """Wait up to `seconds` for the threads that `close` lets end; return True if they have.

        Whoever asks does not wait for itself, nor anybody for what was given up.
        """
        end = time.monotonic() + seconds
        with self._changed:
            threads = [member.thread for member in self._members]
        for thread in threads:
            if thread is None or thread is threading.current_thread():
                continue
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                return False
        return True

    def _begin(self, member: _Member) -> None:
        name = f"sweephand-map-{len(self._members)}"
        self._members.append(member)
        member.thread = threading.Thread(
            target=self._work, args=[member], name=name, daemon=True
        )
        member.thread.start()

    def _work(self, member: _Member) -> None:
        member.worker = self._make_worker()
        try:
            while (job := self._next(member)) is not None:
                made, error = self._try(member, job)
                with self._changed:
                    if member.job is not job:
                        return  # it took too long, and another thread has taken over
                    member.job = None
                if error is not None:
                    job.future.set_exception(error)
                else:
                    job.future.set_result(made)
                del job, made, error  # or they would live until the next one
        finally:
            member.worker.close()

    def _next(self, member: _Member) -> Job | None:
        """Wait for a job; None: there will be none."""
        with self._changed:
            while member.job is None:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return None
                *_, job = heapq.heappop(self._waiting)
                if job.future.set_running_or_notify_cancel():
                    member.job = job
            return member.job

    def _try(self, member: _Member, job: Job) -> tuple[list[MapResult], BaseException | None]:
        try:
            return self._carry_out(member, job), None
        except BaseException as error:
            return [], error

    def _carry_out(self, member: _Member, job: Job) -> list[MapResult]:
        assert member.worker is not None
        while job.pieces and member.job is job:
            piece = job.pieces[0]
            try:
                if piece.lost is None:
                    made = member.worker.do(piece.task)
                else:
                    made = piece.task.finish([piece.task.error(0, piece.lost.reason)], [0.0])
            except Lost as lost:
                if self._is_closed:
                    raise RuntimeError("the source is closed; make a new one") from None
                job.pieces[:1] = piece.without(lost)
                continue
            with self._changed:
                if member.job is job:
                    job.made.append(made)
                    del job.pieces[0]
        return job.made

    # -- what takes too long --
    def _result(self, job: Job) -> list[MapResult]:
        """Wait for a job, and watch for calls that take too long."""
        pause = _LOOK_SECONDS if self._limit is None else min(_LOOK_SECONDS, self._limit / 4)
        while True:
            try:
                return job.future.result(pause)
            except TimeoutError:
                if job.future.done():
                    raise
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        hints = []
        with self._changed:
            for member in list(self._members):
                where = None if member.worker is None else member.worker.at()
                if where is None or member.job is None or not member.job.pieces:
                    continue
                number, since = where
                task = member.job.pieces[0].task
                if number is None:
                    assert member.worker is not None
                    hints += self._look_at_silence(member.worker, now - since, task)
                    continue
                if number >= len(task):
                    continue
                weight = len(task) if task.map.batched else 1
                if self._limit is not None and now - since > self._limit * weight:
                    self._give_up(member, member.job, number)
                elif self._limit is None and now - since > _HINT_SECONDS * weight:
                    hints.append(
                        f"{task.describe(number)}, has not returned for {now - since:.0f} s"
                    )
        if hints and not self._has_hinted:
            self._has_hinted = True
            warnings.warn(
                f"{hints[0]}; map_timeout= gives such calls up", SweephandHint, stacklevel=2
            )

    def _look_at_silence(self, worker: Worker, seconds: float, task: MapTask) -> list[str]:
        """Have a worker that calls no map and does not answer replaced; return hints."""
        if self._limit is None:
            hint = f"a worker process of {task.map} has not answered for {seconds:.0f} s"
            return [hint] if seconds > _HINT_SECONDS else []
        if seconds > self._limit + (0.0 if worker.is_stopped else _SILENT_SECONDS):
            worker.give_up(
                Lost(f"has a worker process that did not answer for {seconds:.1f} s", None)
            )
        return []

    def _give_up(self, member: _Member, job: Job, number: int) -> None:
        """End a call, or abandon its thread; the lock is held."""
        assert member.worker is not None
        lost = Lost(f"did not return within {self._limit:g} s", number, is_late=True)
        if member.worker.give_up(lost):
            return
        rest = Job([*job.pieces[0].without(lost), *job.pieces[1:]], list(job.made), job.future)
        self._members.remove(member)
        member.job = None
        self._begin(_Member(job=rest))
