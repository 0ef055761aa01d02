"""Checks that answer all who came before they began."""

from __future__ import annotations

import pickle
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

from sweephand.files import remote as shared_check
from sweephand.files.remote import SharedCheck

TIMEOUT = 60  # seconds, of waits that end at once unless something is wrong


class Checks:
    """Checks that wait, each for its gate, and fail where that is asked for."""

    def __init__(self) -> None:
        self.begun: list[Event] = []
        self._gates = [Event() for _ in range(8)]
        self._check = SharedCheck()
        self._fails = False
        self._pool = ThreadPoolExecutor(8)

    def ask(self) -> Future[None]:
        return self._pool.submit(self._check, self._wait)

    def wait_for(self, count: int) -> None:
        """Wait until so many checks have begun."""
        while len(self.begun) < count:
            Event().wait(1e-3)

    def open_gate(self, number: int, *, fails: bool = False) -> None:
        self._fails = fails
        self._gates[number].set()

    def _wait(self) -> None:
        gate = self._gates[len(self.begun)]
        self.begun.append(gate)
        assert gate.wait(TIMEOUT)
        if self._fails:
            raise ValueError("another object")


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    monkeypatch.setattr(shared_check, "_MOST", 1)
    return Checks()


def test_who_comes_during_a_check_waits_for_the_next_one_together(checks: Checks) -> None:
    first = checks.ask()
    checks.wait_for(1)
    others = [checks.ask() for _ in range(5)]
    checks.open_gate(0)
    first.result(TIMEOUT)
    checks.wait_for(2)
    assert not any(other.done() for other in others), "the check began before they came"
    checks.open_gate(1)
    checks.open_gate(2)  # of a thread that was late, if one was
    for other in others:
        other.result(TIMEOUT)
    assert len(checks.begun) <= 3


def test_a_check_that_fails_answers_nobody_else(checks: Checks) -> None:
    first = checks.ask()
    checks.wait_for(1)
    second = checks.ask()
    checks.open_gate(0, fails=True)
    with pytest.raises(ValueError, match="another object"):
        first.result(TIMEOUT)
    checks.wait_for(2)
    checks.open_gate(1)
    second.result(TIMEOUT)


def test_another_process_checks_for_itself() -> None:
    asked: list[int] = []
    check = pickle.loads(pickle.dumps(SharedCheck()))
    for number in range(3):
        check(lambda number=number: asked.append(number))
    assert asked == [0, 1, 2]
