"""Takers elsewhere: on other ranks, and where Ray carries their calls."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.loans.test_loans import sequences, source
from tests.torch.launch import launch

import sweephand as sh


def make_source() -> sh.MinibatchSource:
    return source(sequences())


def test_ranks_take_from_the_desk_of_rank_0(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed")
    ranks = launch(2, ["lend"], tmp_path, "tests.loans.ranks")["lend"]
    assert [rank.code for rank in ranks] == [0, 0]
    found = [rank.found for rank in ranks]
    trained = [ticket for one in found for ticket in one["trained"]]
    assert len(trained) == len(set(trained)) == 40
    assert [len(one["out"]) for one in found] == [1, 2]
    assert found[0]["report"] == found[1]["report"]
    assert found[0]["report"]["expired"] == 6
    assert all("has ended" in one["refused"] for one in found)


class FakeRay(SimpleNamespace):
    """Actors in this process, which get every call twice, and all by value."""

    def __init__(self) -> None:
        super().__init__(remote=self.remote_class, get=lambda answer: answer)

    def remote_class(self, kind: type) -> Any:
        def remote(*arguments: Any) -> Any:
            actor = kind(*arguments)

            def ask(name: str, arguments: tuple[Any, ...]) -> Any:
                first, again = (actor.ask(*sent(name, arguments)) for _ in range(2))
                return pickle.loads(pickle.dumps(again if name == "give_back" else first))

            return SimpleNamespace(ask=SimpleNamespace(remote=ask))

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=remote))


def sent(*message: Any) -> Any:
    return pickle.loads(pickle.dumps(message))


def go_through(desk: sh.ray.LoanDesk) -> None:
    loan = desk.take(2)
    assert len(desk.done(loan.tickets[0])) == 2
    desk.give_back(loan.tickets[1])
    with pytest.raises(sh.LoanError, match="given back"):
        desk.done(loan.tickets[1])
    state = desk.state_dict()
    desk.drop(desk.take(1).tickets[0, :1], "no signal")
    desk.load_state_dict(state)
    while not desk.is_finished:
        desk.expire(older_than=0)  # what a call that came twice has taken
        desk.done(desk.take(3).tickets)
    assert desk.report()["trained"] == 40


def test_a_desk_in_an_actor_bears_calls_that_come_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[sh.ray.__name__], "_ray", FakeRay())
    go_through(sh.ray.LoanDesk(make_source, copies=2, num_cpus=0))
