"""Tasks, cut into pieces where a worker is lost, and the pool of workers that do them.

A task has a length, its items, and a name for errors; ``part(begin, end)`` is the task of a
part of the items, and ``failed(reason)`` the result of one item that is given up. Where
``is_joint`` one call takes all items.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from sweephand.run.processes import CLOSED, ProcessWorker, Progress, WorkerEnded

_LOOK_SECONDS = 5.0  # between looks at slow items
_SILENT_SECONDS = 30.0  # beyond the limit, in which a process may begin, load and pack


@dataclass(eq=False)
class Request:
    """Tasks that were asked for together."""

    left: int  # pieces to do
    made: dict[tuple[int, int], Any] = field(default_factory=dict)  # by their places
    error: BaseException | None = None
    is_wanted: bool = True  # its caller waits


class Piece(NamedTuple):
    """Part of a task that is still to do."""

    request: Request
    task: Any
    place: tuple[int, int]  # the number of the task, and of its first item
    was_tried: bool = False  # a worker ended that had it

    def part(self, begin: int, end: int, *, was_tried: bool = False) -> Piece:
        number, first = self.place
        task = self.task.part(begin, end)
        return Piece(self.request, task, (number, first + begin), was_tried)


class ThreadWorker:
    """A worker that is the thread which asks it."""

    def __init__(self, carry_out: Callable[[Any, Progress], Any]) -> None:
        self.progress = Progress()
        self._carry_out = carry_out

    def do(self, task: Any) -> Any:
        return self._carry_out(task, self.progress)

    def close(self) -> None:
        """Do nothing: it ends with its slot."""


Worker: TypeAlias = ThreadWorker | ProcessWorker


@dataclass(eq=False)
class Slot:
    """A thread of the pool, with its worker and the piece that this has."""

    worker: Worker
    piece: Piece | None = None
    since: float = 0.0  # that the worker has it
    late: str = ""  # why the worker was killed
    is_abandoned: bool = False
    thread: threading.Thread | None = None


class Pool:
    """Workers, each asked by a thread; those who wait for results look after slow items.

    Safe for several threads.
    """

    def __init__(
        self,
        size: int,
        make_worker: Callable[[], Worker],
        limit: float | None = None,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self._size = size
        self._limit = math.inf if limit is None else limit
        self._pause = min(_LOOK_SECONDS, self._limit / 4)
        self._make_worker = make_worker
        self._end = end
        self._lock = threading.RLock()
        self._ready = threading.Condition(self._lock)  # a piece can be begun
        self._done = threading.Condition(self._lock)  # a request has all, or an error
        self._waiting: deque[Piece] = deque()
        self._is_closed = False
        self._looked = 0.0
        self._slots: list[Slot] = []

    def run(self, tasks: Sequence[Any]) -> list[Any]:
        """Carry out tasks, and return the results of each, in one part or several."""
        request = Request(len(tasks))
        with self._lock:
            self._check_open()
            while len(self._slots) < self._size:
                self._add_slot()
            self._waiting += [Piece(request, task, (n, 0)) for n, task in enumerate(tasks)]
            self._ready.notify(len(tasks))
            try:
                while request.left and request.error is None:
                    self._done.wait(self._pause)
                    self._check_open()
                    self._look()
            finally:
                request.is_wanted = False  # of an interrupted caller, or beside an error
        if request.error is not None:
            raise request.error
        return [request.made[place] for place in sorted(request.made)]

    def close(self) -> None:
        """Let the workers end, and all who wait."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            self._ready.notify_all()
            self._done.notify_all()
        self._end()

    def has_ended(self, seconds: float) -> bool:
        """Wait up to `seconds` for the workers of a closed pool, and return True if they ended.

        The calling worker is not waited for, and neither are abandoned workers.
        """
        until = time.monotonic() + seconds
        for slot in self._slots:
            thread = slot.thread
            if thread is not None and thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))
                if thread.is_alive():
                    return False
        return True

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError(CLOSED)

    def _add_slot(self) -> None:
        slot = Slot(self._make_worker())
        slot.thread = threading.Thread(
            target=self._work, args=[slot], name="sweephand-map", daemon=True
        )
        self._slots.append(slot)
        slot.thread.start()

    def _next(self, slot: Slot) -> Piece | None:
        """Wait for the next piece for a worker; None if it is to end. The lock is held."""
        while not (self._is_closed or slot.is_abandoned):
            while self._waiting:
                piece = self._waiting.popleft()
                if piece.request.is_wanted:
                    return piece
            self._ready.wait()
        return None

    def _note(self, piece: Piece, *made: Any, instead: Sequence[Piece] = ()) -> None:
        """Note the result of a piece, or other pieces in its place, which begin next."""
        request = piece.request
        request.made.update((piece.place, one) for one in made)
        request.left += len(instead) - 1
        self._waiting.extendleft(reversed(instead))
        self._ready.notify(len(instead))
        if not request.left:
            self._done.notify_all()

    def _lose(self, slot: Slot, piece: Piece, reason: str) -> None:
        """Cut the piece that a lost worker had begun, without the item that is to blame."""
        number, _ = slot.worker.progress.at
        is_late, count = bool(slot.late) and number is not None, len(piece.task)
        if not is_late and not piece.was_tried:
            instead = [piece._replace(was_tried=True)]  # an accident, maybe
        elif count == 1:
            return self._note(piece, piece.task.failed(reason))
        elif piece.task.is_joint or number is None:
            instead = [piece.part(at, at + 1) for at in range(count)]
        else:
            ends = piece.part(0, number), piece.part(number + 1, count)
            instead = [one for one in ends if len(one.task)]
            at = piece.part(number, number + 1, was_tried=True)
            if is_late:
                piece.request.made[at.place] = at.task.failed(reason)
            else:
                instead.append(at)
        return self._note(piece, instead=instead)

    def _look(self) -> None:
        """Give up items that take too long."""
        now = time.monotonic()
        if now - self._looked < self._pause:
            return
        self._looked = now
        for slot in list(self._slots):
            number, since = slot.worker.progress.at
            piece = slot.piece
            if piece is None or (number or 0) >= len(piece.task):
                continue
            weight, allowed = len(piece.task) if piece.task.is_joint else 1, 0.0
            reason = f"did not return within {self._limit:g} s"
            if number is None:
                since, weight, allowed = max(slot.since, since), 1, _SILENT_SECONDS
                reason = f"has a worker process that did not answer for {now - since:.1f} s"
            if now - since > self._limit * weight + allowed:
                slot.late = slot.late or reason
                if isinstance(slot.worker, ProcessWorker):
                    slot.worker.kill()
                else:  # a thread cannot be ended: it is left to itself
                    slot.is_abandoned = True
                    self._slots.remove(slot)
                    self._lose(slot, piece, reason)
                    self._add_slot()

    # -- by the threads of slots --
    def _work(self, slot: Slot) -> None:
        while self._step(slot):
            pass
        slot.worker.close()

    def _step(self, slot: Slot) -> bool:
        """Have a piece done; False when the slot is to end.

        A function of its own, as its names would keep tasks and results alive.
        """
        with self._lock:
            piece = slot.piece = self._next(slot)
            slot.since = time.monotonic()
        if piece is None:
            return False
        made: list[Any] = []
        error: BaseException | None = None
        try:
            made = [slot.worker.do(piece.task)]
        except BaseException as raised:
            error = raised
        with self._lock:
            if slot.is_abandoned:
                return False
            if error is None:
                self._note(piece, *made)
            elif not isinstance(error, WorkerEnded):
                piece.request.error = error
                self._done.notify_all()
            elif str(error):
                self._lose(slot, piece, slot.late or str(error))
            else:  # it had not got there
                self._note(piece, instead=[piece])
            slot.piece, slot.late = None, ""
        return True
