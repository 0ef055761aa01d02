"""What maps run on: the thread that wants the sequences, threads, or processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from sweephand.corpus.turns import Turn

if TYPE_CHECKING:
    from sweephand.maps.task import Made, MapTask
    from sweephand.maps.team import Team

Kind = Literal["threads", "processes"]

_TASKS_PER_WORKER = 4


class MapWorkers:
    """Carries out tasks; what comes of them does not depend on how many workers there are.

    The workers start with the first task, so that a process that was forked before has its own.

    Parameters
    ----------
    num_workers : int
        0: whoever asks does the work.
    kind : {"threads", "processes"}

    Attributes
    ----------
    turn : Turn
        In which the functions of the user are called.
    """

    def __init__(self, num_workers: int, kind: Kind = "threads") -> None:
        self.num_workers = num_workers
        self.kind = kind
        self.turn = Turn(several=True)
        self._team: Team | None = None
        self._process = 0  # that the team is of
        self._is_closed = False
        self._starting = threading.Lock()

    def run(self, task: MapTask, costs: Sequence[float]) -> list[Made]:
        """Map sequences, those first that take longest; the parts come in their order.

        Parameters
        ----------
        task : MapTask
        costs : sequence of float
            How long each sequence may take, in any unit.
        """
        if self.num_workers == 0 or len(task) == 0:
            return [task.do(self.turn)]
        bounds = cut(costs, self.num_workers * _TASKS_PER_WORKER)
        parts = [task.part(begin, end) for begin, end in bounds]
        return self._own_team().do(parts, [sum(costs[begin:end]) for begin, end in bounds])

    def close(self) -> None:
        """End the workers when they have done what they are at."""
        with self._starting:
            self._is_closed = True
            if self._team is not None and self._process == os.getpid():
                self._team.close()

    def _own_team(self) -> Team:
        with self._starting:
            if self._is_closed:
                raise RuntimeError("the source is closed; make a new one")
            if self._team is None or self._process != os.getpid():
                from sweephand.maps.team import Team  # brings futures, and with them logging

                self._team = Team(self.num_workers, self.turn)
                self._process = os.getpid()
            return self._team


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
