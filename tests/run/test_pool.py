"""A pool gives every caller its own results, whoever leads, and whatever ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from sweephand.run.pool import Pool, ThreadWorker
from sweephand.run.processes import ForkServer, ProcessWorker, Progress


def squares(numbers: Sequence[int], progress: Progress) -> list[Any]:
    """Return the squares of numbers; one below 0 ends its process."""
    found = []
    for at, number in enumerate(numbers):
        progress.begin(at)
        if number < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        found.append(number**2)
        progress.end()
    return found


class Call:
    """The function above, and where it is found."""

    modules = ("tests.run.test_pool",)
    __call__ = staticmethod(squares)


CALL = Call()


class Squares:
    """Task of squaring numbers."""

    is_joint = False

    def __init__(self, numbers: Sequence[int]) -> None:
        self.argument, self.call = numbers, CALL

    def __len__(self) -> int:
        return len(self.argument)

    def part(self, begin: int, end: int) -> Squares:
        return Squares(self.argument[begin:end])

    def failed(self, reason: str) -> list[Any]:
        return [reason]


def make_pool(kind: str, size: int = 2) -> Pool:
    if kind == "threads":
        return Pool(size, partial(ThreadWorker, do))
    server = ForkServer()
    return Pool(size, partial(ProcessWorker, server, {}), end=server.end)


def do(task: Squares, progress: Progress) -> list[Any]:
    return squares(task.argument, progress)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_callers_at_once_get_their_own_results_in_their_order(kind: str) -> None:
    pool = make_pool(kind)
    found: dict[int, list[Any]] = {}

    def ask(first: int) -> None:
        for begin in range(first, first + 200, 20):
            tasks = [Squares(range(at, at + 5)) for at in range(begin, begin + 20, 5)]
            found.setdefault(first, []).extend(pool.run(tasks))

    asking = [threading.Thread(target=ask, args=[first]) for first in range(0, 1000, 200)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    pool.close()
    assert pool.has_ended(60)
    whole = [one for first in sorted(found) for part in found[first] for one in part]
    assert whole == [number**2 for number in range(1000)]
    with pytest.raises(RuntimeError, match="closed"):
        pool.run([Squares([1])])


def test_an_item_that_ends_processes_is_lost_alone_and_in_its_place() -> None:
    pool = make_pool("processes")
    parts = pool.run([Squares([1, 2, -1, 3]), Squares([-1]), Squares([4])])
    pool.close()
    lost = "killed its worker process (signal 9)"
    assert [one for part in parts for one in part] == [1, 4, lost, 9, lost, 16]


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_who_is_interrupted_leaves_the_others_what_they_asked_for(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by Ctrl-C, while it waits."""
    pool, main = make_pool(kind), threading.main_thread()
    wait, waits = pool._done.wait, threading.Event()

    def interrupted(pause: float) -> bool:
        if threading.current_thread() is main:
            waits.set()
            raise KeyboardInterrupt
        return wait(pause)

    monkeypatch.setattr(pool._done, "wait", interrupted)
    found: list[Any] = []

    def ask() -> None:
        assert waits.wait(60)
        found.extend(pool.run([Squares([n, n + 1]) for n in range(40)]))

    other = threading.Thread(target=ask)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        pool.run([Squares(range(100)) for _ in range(9)])
    other.join(60)
    pool.close()
    assert found == [[n**2, (n + 1) ** 2] for n in range(40)]
