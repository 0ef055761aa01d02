"""Threads that carry out tasks in the order in which they must begin."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import count

from sweephand.corpus.turns import Turn
from sweephand.maps.task import Made, MapTask


class Team:
    """Threads that begin first what must be begun first.

    The minibatches that are wanted are due one after the other, each so much later as its
    tasks take; a task must begin so long before its minibatch is due as it takes. So a slow
    sequence of a later minibatch may begin before the quick ones of an earlier one, and nobody
    waits for it.

    Parameters
    ----------
    size : int
        Threads.
    turn : Turn
        In which the functions of the user are called.
    """

    def __init__(self, size: int, turn: Turn) -> None:
        self._size = size
        self._turn = turn
        self._waiting: list[tuple[float, int, MapTask, Future[Made]]] = []  # a heap
        self._numbers = count()
        self._asked = 0.0  # what all tasks so far cost
        self._is_closed = False
        self._changed = threading.Condition()
        for number in range(size):
            name = f"sweephand-map-{number}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def do(self, tasks: Sequence[MapTask], costs: Sequence[float]) -> list[Made]:
        """Carry out tasks, and return what came of each.

        Raises
        ------
        RuntimeError
            If the team is closed.
        """
        asked: list[Future[Made]] = []
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the source is closed; make a new one")
            self._asked += sum(costs)
            due = self._asked / self._size
            for task, cost in zip(tasks, costs, strict=True):
                asked.append(Future())
                entry = (due - cost, next(self._numbers), task, asked[-1])
                heapq.heappush(self._waiting, entry)
            self._changed.notify(len(tasks))
        try:
            return [one.result() for one in asked]
        except BaseException:
            for one in asked:
                one.cancel()
            raise

    def close(self) -> None:
        """Let the threads end when they have done what they are at; the rest is cancelled."""
        with self._changed:
            self._is_closed = True
            for *_, future in self._waiting:
                future.cancel()
            self._waiting.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                *_, task, future = heapq.heappop(self._waiting)
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._carry_out(task))
            except BaseException as error:
                future.set_exception(error)

    def _carry_out(self, task: MapTask) -> Made:
        return task.do(self._turn)
