"""Tasks, cut into pieces where a worker is lost, and the pool of workers that do them."""

from __future__ import annotations

import contextlib
import heapq
import math
import select
import socket
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from sweephand.errors import SweephandHint
from sweephand.run.message import socket_pair
from sweephand.run.progress import Progress

_HINT_SECONDS = 60.0
_LOOK_SECONDS = 5.0  # between looks at slow items
CLOSED = "the source is closed; make a new one"


class Task(Protocol):
    """Task over items, which may be cut into parts."""

    @property
    def name(self) -> str:
        """Name of the call, for errors."""

    @property
    def is_joint(self) -> bool:
        """True if one call takes all items."""

    def __len__(self) -> int: ...

    def part(self, begin: int, end: int) -> Task:
        """Return a task of a part of the items."""

    def describe(self, number: int) -> str:
        """Name the call for an item."""

    def failed(self, reason: str) -> Any:
        """Return the result of one item that is given up."""


class Piece(NamedTuple):
    """Part of a task that is still to do: `lost` is why it is given up."""

    task: Task
    was_tried: bool = False  # a worker ended that had it
    lost: str | None = None

    def after(self, lost: str, number: int | None, *, is_late: bool) -> list[Piece]:
        """Return the pieces that it is cut into when it did not come back.

        `lost` is why, and `number` the item at work, if that is known: one that is late is not
        tried again.
        """
        task = self.task
        if not is_late and not self.was_tried:
            return [Piece(task, was_tried=True)]  # it may have been an accident
        if len(task) == 1:
            return [Piece(task, lost=lost)]
        if task.is_joint or number is None:
            return [Piece(task.part(one, one + 1)) for one in range(len(task))]
        ends = Piece(task.part(0, number)), Piece(task.part(number + 1, len(task)))
        middle = Piece(task.part(number, number + 1), True, lost if is_late else None)
        return [one for one in (ends[0], middle, ends[1]) if len(one.task)]


@dataclass(eq=False)
class Job:
    """A running task, with the pieces to do and the results already there."""

    pieces: list[Piece]  # none when its caller has gone
    beside: list[Job]  # those that were asked for together and are not done
    made: list[Any] = field(default_factory=list)
    error: BaseException | None = None


class WorkerEnded(Exception):
    """A worker has ended, and its task is lost."""


class Worker(ABC):
    """Thread or process that carries out tasks; once it has ended another takes its place.

    Attributes
    ----------
    peer : socket or None
        Which can be read when there is an answer; None before the first task.
    patience : float
        Seconds beyond the limit that it may be at something else than a call.
    """

    peer: socket.socket | None = None
    job: Job | None = None
    asked = 0.0  # since when it has a task
    patience = math.inf

    def __init__(self) -> None:
        self.progress = Progress()

    @abstractmethod
    def ask(self, task: Any) -> None:
        """Send a task; `WorkerEnded` if that is not possible any more."""

    @abstractmethod
    def answer(self) -> tuple[Any, BaseException | None]:
        """Return the result that has come, or its error; `WorkerEnded` if it ended."""

    def end(self, *, at_once: bool) -> str:
        """Abandon it, and return how it ended."""
        self.close()
        return "has a worker that ended"

    def close(self) -> None:
        """Let it end."""
        if self.peer is not None:
            self.peer.close()

    def has_ended(self, seconds: float) -> bool:
        """Wait up to `seconds` for a closed worker, and return True if it has ended."""
        return True


class ThreadWorker(Worker):
    """A worker thread. It cannot be ended: a thread that takes too long is abandoned."""

    def __init__(self, name: str, carry_out: Callable[[Any, Progress], Any]) -> None:
        super().__init__()
        self._name = name
        self._carry_out = carry_out
        self._tasks: SimpleQueue[Any] = SimpleQueue()
        self._answer: tuple[Any, BaseException | None] = None, None
        self._thread: threading.Thread | None = None

    def ask(self, task: Any) -> None:
        """Send a task."""
        if self._thread is None:
            self.peer, other = socket.socketpair()
            self._thread = threading.Thread(
                target=self._work, args=[other], name=self._name, daemon=True
            )
            self._thread.start()
        self._tasks.put(task)

    def answer(self) -> tuple[Any, BaseException | None]:
        """Return the result of the task, or its error."""
        assert self.peer is not None
        self.peer.recv(1)
        found, self._answer = self._answer, (None, None)
        return found

    def close(self) -> None:
        """Let the thread end after its task."""
        self._tasks.put(None)
        super().close()

    def has_ended(self, seconds: float) -> bool:
        """Wait up to `seconds` for the thread, unless it is the calling thread."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(seconds)
        return not thread.is_alive()

    def _work(self, other: socket.socket) -> None:
        with other:
            while (task := self._tasks.get()) is not None:
                try:
                    self._answer = self._carry_out(task, self.progress), None
                except BaseException as error:
                    self._answer = None, error
                del task  # or it would live until the next one
                with contextlib.suppress(OSError):
                    other.send(b"!")


class Pool:
    """Workers that begin tasks by deadline. Safe for several threads.

    All tasks of a request are due when the workers can have done the work requested so far.
    Tasks begin in the order of their due time less their cost. So a slow item of a later
    request may begin before quick items of an earlier request, and nobody waits for it.

    A thread that waits for results looks after all workers: it sends what is to be done and
    takes what comes. Others that wait meanwhile are woken when theirs is there, or when it
    is their turn to look.
    """

    def __init__(
        self,
        size: int,
        make_worker: Callable[[], Worker],
        limit: float | None = None,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self._limit = math.inf if limit is None else limit
        self._pause = min(_LOOK_SECONDS, self._limit / 4)
        self._make_worker = make_worker
        self._end = end
        self._workers = [make_worker() for _ in range(size)]
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Job]] = []  # a heap
        self._requests: list[list[Job]] = []  # the jobs of each that are not done
        self._numbers = count()
        self._asked = 0.0  # the cost of all tasks up to now
        self._is_led = False  # by a thread that waits
        self._is_closed = False
        self._has_hinted = False
        self._looked = 0.0
        self._wake, self._waker = socket_pair()

    def run(self, tasks: Sequence[Task], costs: Sequence[float]) -> list[Any]:
        """Carry out tasks, and return the results of each, in one part or several."""
        jobs: list[Job] = []
        jobs += [Job([Piece(task)], jobs) for task in tasks]
        asked = list(jobs)
        with self._changed:
            self._asked += sum(costs)
            due = self._asked / len(self._workers)
            for job, cost in zip(asked, costs, strict=True):
                heapq.heappush(self._waiting, (due - cost, next(self._numbers), job))
            self._requests.append(jobs)
        try:
            while self._may_lead(jobs):
                self._lead(jobs)
        finally:
            with self._changed:
                self._requests = [one for one in self._requests if one is not jobs]
                for job in asked:  # of an interrupted caller, or beside an error
                    job.pieces.clear()
        for job in asked:
            if job.error is not None:
                raise job.error
        return [made for job in asked for made in job.made]

    def close(self) -> None:
        """Let the workers end, and all who wait."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._end()
        with self._changed:
            self._rouse()
            if not self._is_led:
                self._close()

    def has_ended(self, seconds: float) -> bool:
        """Wait up to `seconds` for the workers of a closed pool, and return True if they ended.

        The calling worker is not waited for, and neither are abandoned workers.
        """
        until = time.monotonic() + seconds
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_led, seconds):
                return False
        return all(one.has_ended(max(0.0, until - time.monotonic())) for one in self._workers)

    def _may_lead(self, jobs: list[Job]) -> bool:
        """Wait until no such job is left, or it is this thread's turn to look after workers."""
        with self._changed:
            self._rouse()
            self._changed.wait_for(lambda: not (jobs and self._is_led) or self._is_closed)
            if jobs:
                self._check_open()
                self._is_led = True
            return bool(jobs)

    def _lead(self, jobs: list[Job]) -> None:
        """Look after the workers until no such job is left."""
        try:
            while jobs:
                self._step()
        except BaseException:
            with self._changed:
                if not self._is_closed:
                    self._start_over()
            raise
        finally:
            with self._changed:
                self._is_led = False
                if self._is_closed:
                    self._close()
                self._changed.notify_all()

    def _start_over(self) -> None:
        """Hand the work to other workers, after an interruption at any moment."""
        for worker in self._workers:
            if worker.job is not None:
                self._replace(worker, "was interrupted", is_lost=False).job = None
        left = [job for request in self._requests for job in request if job.pieces]
        self._waiting = [(0.0, next(self._numbers), job) for job in left]

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError(CLOSED)

    def _rouse(self) -> None:
        """Have the leading thread look at once; the lock is held."""
        if self._is_led:
            with contextlib.suppress(OSError):
                self._waker.send(b"!", socket.MSG_DONTWAIT)

    def _close(self) -> None:
        for end in (self._wake, self._waker):
            end.close()
        for worker in self._workers:
            worker.close()

    # -- by the leading thread alone --
    def _step(self) -> None:
        """Give tasks to workers that have none, and wait for the next event."""
        with self._changed:
            self._check_open()
            idle = [worker for worker in self._workers if worker.job is None]
            for worker in idle:
                worker.job = self._next()
        for worker in idle:
            self._advance(worker)
        peers = {one.peer: one for one in self._workers if one.job and one.peer}
        if not peers:
            return
        poll = select.poll()
        for peer in [*peers, self._wake]:
            poll.register(peer, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(1000 * self._pause)}
        if self._wake.fileno() in ready:
            self._wake.recv(1)
        for peer, worker in peers.items():
            if peer.fileno() in ready:
                self._take(worker)
        now = time.monotonic()
        if now - self._looked > self._pause:
            self._looked = now
            for worker in list(self._workers):
                self._look(worker, now)

    def _next(self) -> Job | None:
        """Return the job that must begin next; the lock is held."""
        while self._waiting:
            *_, job = heapq.heappop(self._waiting)
            if job.pieces:
                return job
        return None

    def _advance(self, worker: Worker) -> None:
        """Send the next piece of a worker's job, or take leave of the job."""
        job = worker.job
        if job is None:
            return
        while job.error is None and (pieces := job.pieces[:1]):
            task, _, lost = pieces[0]
            is_new, worker.asked = worker.peer is None, time.monotonic()
            try:
                if lost is None:
                    worker.ask(task)
                    return
                self._note(job, [], task.failed(lost))
            except WorkerEnded:  # an old one before it had the task
                worker = self._replace(worker, is_lost=is_new)
            except Exception as error:
                job.error = error
        worker.job = None
        with self._changed:
            job.pieces.clear()
            if job.error is not None:
                job.beside.clear()
            elif job in job.beside:
                job.beside.remove(job)
            if not job.beside:
                self._changed.notify_all()

    def _take(self, worker: Worker) -> None:
        """Take the answer of a worker, or learn that it has ended."""
        job = worker.job
        assert job is not None
        try:
            made, job.error = worker.answer()
            self._note(job, [], made)
        except WorkerEnded:
            worker = self._replace(worker)
        except Exception as error:
            job.error = error
        self._advance(worker)

    def _replace(self, worker: Worker, late: str = "", *, is_lost: bool = True) -> Worker:
        """Replace a worker, without its lost item; `late` is the reason for ending it."""
        (number, _), job = worker.progress.at, worker.job
        ending = worker.end(at_once=bool(late))
        other = self._make_worker()
        self._workers[self._workers.index(worker)], other.job = other, job
        if job is not None and job.pieces and is_lost:
            is_late = bool(late) and number is not None
            pieces = job.pieces[0].after(late or ending, number, is_late=is_late)
            self._note(job, pieces)
        return other

    def _note(self, job: Job, instead: list[Piece], *made: Any) -> None:
        """Put other pieces, or a result, in the place of the next piece."""
        with self._changed:
            if job.pieces:  # and its caller still waits
                job.pieces[:1] = instead
                job.made += made

    def _look(self, worker: Worker, now: float) -> None:
        """Give up a call that takes too long, or hint at it."""
        pieces = [] if worker.job is None else worker.job.pieces[:1]
        number, since = worker.progress.at
        if not pieces or worker.peer is None or (number or 0) >= len(pieces[0].task):
            return
        task, allowed = pieces[0].task, 0.0
        weight = len(task) if task.is_joint else 1
        if number is None:
            since, weight, allowed = max(worker.asked, since), 1, worker.patience
            late = f"has a worker process that did not answer for {now - since:.1f} s"
            hint = f"a worker process of {task.name} has not answered"
        else:
            late = f"did not return within {self._limit:g} s"
            hint = f"{task.describe(number)}, has not returned"
        if now - since > self._limit * weight + allowed:
            self._advance(self._replace(worker, late))
        elif self._limit == math.inf > allowed and now - since > _HINT_SECONDS * weight:
            if self._has_hinted:
                return
            self._has_hinted = True
            advice = f"{hint} for {now - since:.0f} s; map_timeout= gives such calls up"
            warnings.warn(advice, SweephandHint, stacklevel=2)
