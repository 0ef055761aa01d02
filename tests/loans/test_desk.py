"""A desk by example: its errors, its report, what it is saved with, and who may take."""

from __future__ import annotations

import base64
import os
import pickle
import random
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loans.test_loans import mixed, sequences, source
from tests.train.small import line_trainer

import sweephand as sh


def desk_of(corpus: Any = None, copies: int = 1, **options: Any) -> sh.Desk:
    return source(sequences() if corpus is None else corpus, **options).lend(copies)


def test_threads_take_and_answer_at_once() -> None:
    desk = desk_of(sh.ArrayDeserializer({"x": np.arange(500)}), copies=2)
    counted: list[int] = []
    barrier = threading.Barrier(8)

    def take(seed: int) -> None:
        draw = random.Random(seed)
        barrier.wait()
        while not desk.is_finished:
            loan = desk.take(draw.randint(1, 9))
            ends = draw.sample(tickets := loan.tickets.reshape(-1).tolist(), len(tickets) // 2)
            counted.extend(desk.done(ends).tolist())
            desk.give_back([one for one in tickets if one not in ends])

    takers = [threading.Thread(target=take, args=(seed,)) for seed in range(8)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert len(counted) == len(set(counted)) == 2000


def test_a_ticket_has_desk_sweep_sequence_and_copy() -> None:
    desk = desk_of(copies=3, randomize=False)
    loan = desk.take(12)  # of two sweeps of 10
    bits = loan.tickets >> 48
    assert loan.tickets.dtype == np.int64
    assert (bits == bits[0, 0]).all()
    assert (bits > 0).all()
    expected = np.arange(36).reshape(12, 3)
    assert ((loan.tickets & (2**48 - 1)) == expected).all()
    assert desk_of(copies=3, randomize=False).take(1).tickets[0, 0] == loan.tickets[0, 0]
    other = source(sequences(), randomize=True).lend(3).take(1).tickets
    assert (other >> 48 != bits[0]).all()


REFUSALS: dict[str, Callable[[sh.Desk, Any], object]] = {
    "has ended": lambda desk, own: (desk.done(own), desk.done(own)),
    "it is trained or dropped": lambda desk, own: (desk.drop(own, "bad"), desk.done(own)),
    "was given back": lambda desk, own: (desk.give_back(own), desk.done(own, "ignore")),
    "of another desk": lambda desk, own: desk.done(own + (1 << 48)),
    "was not lent yet": lambda desk, own: desk.give_back(own + 2**20),
    "copy 0 of 'data0__": lambda desk, own: desk.done([*own, *own]),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_ticket_that_is_not_out_is_refused_with_its_place(reason: str) -> None:
    desk = desk_of()
    loan = desk.take(1)
    with pytest.raises(sh.LoanError, match=reason) as refused:
        REFUSALS[reason](desk, loan.tickets[0])
    error = pickle.loads(pickle.dumps(refused.value))
    assert isinstance(error, sh.StateError)
    assert error.ticket >= loan.tickets[0, 0]
    assert error.sequence in (None, *source(sequences()).sequence_ids(0, 39))


def test_an_end_that_is_refused_ends_nothing() -> None:
    desk = desk_of()
    first, second = desk.take(1).tickets, desk.take(1).tickets
    desk.done(first)
    for end in (desk.done, desk.give_back, lambda tickets: desk.drop(tickets, "bad")):
        with pytest.raises(sh.LoanError):
            end([*second[0], *first[0]])
    assert desk.report()["out"] == 1
    assert (
        desk.done([*second[0], *first[0], -1], repeated="ignore").tolist() == second[0].tolist()
    )


def test_a_source_with_a_desk_serves_by_it_alone() -> None:
    lender = source(sequences())
    desk = lender.lend()
    desk.take(2)
    for serve in (
        lambda: lender.next_minibatch(4),
        lambda: next(lender.minibatches(4)),
        lambda: setattr(lender, "current_position", 0),
        lambda: lender.load_state_dict(lender.state_dict()),
        lender.lend,
    ):
        with pytest.raises(RuntimeError, match="lends"):
            serve()
    assert lender.current_position == desk.position > 0
    lender.close()
    with pytest.raises(RuntimeError, match="closed"):
        desk.take(1)
    assert desk.report()["out"] == 2, "nothing is lent in vain"


@pytest.mark.parametrize("layout", [sh.Packed(16), sh.Bucketed([4, 9]), sh.TruncatedBPTT(4)])
def test_only_whole_sequences_in_order_are_lent(layout: sh.Layout) -> None:
    with pytest.raises(ValueError, match="whole sequences"):
        desk_of(layout=layout)


def test_a_state_of_another_desk_is_refused_and_a_damaged_one_too() -> None:
    desk = desk_of(copies=2)
    desk.give_back(desk.take(3).tickets[:, 1])
    state = desk.state_dict()
    others = [desk_of(copies=3), desk_of(sequences((1, 2)), copies=2)]
    for other in others:
        with pytest.raises(sh.StateError):
            other.load_state_dict(state)
    times = base64.b64encode(zlib.compress(np.array([0, 10**6], "<i8").tobytes())).decode()
    wrong: list[Any] = [None, {}, [], *({**state, key: None} for key in state)]
    wrong += [{key: one for key, one in state.items() if key != name} for name in state]
    wrong += [{**state, "times": times}, {**state, "states": state["times"]}]
    wrong += [{**state, "states": state["states"][:-6]}, {**state, "desk": 2**20}]
    before = desk.report()
    for one in wrong:
        with pytest.raises(sh.StateError):
            desk.load_state_dict(one)
    assert desk.report() == before


def test_a_report_counts_by_corpus_and_by_length() -> None:
    desk = desk_of(mixed(), copies=2, max_sweeps=2**64 - 1, max_samples=60)
    tickets = np.concatenate([desk.take(1).tickets for _ in range(6)])
    desk.done(tickets[:2])
    desk.drop(tickets[2], "no signal")
    desk.give_back(tickets[3])
    desk.expire(desk.position - 1)
    report = desk.report()
    assert report["served"] == 12
    assert report["trained"] == 4
    assert report["dropped"] == {"no signal": 2}
    assert report["given_back"] == 2
    assert report["out"] + report["waiting"] == 6
    for name in ("by_corpus", "by_length"):
        for kind in ("served", "trained", "out", "waiting", "given_back", "expired"):
            assert sum(one[kind] for one in report[name].values()) == report[kind]
    assert set(report["by_corpus"]) == {"a", "b"}
    assert set(report["by_length"]) <= {1, 2, 4, 8, 16}


def test_only_old_loans_expire() -> None:
    desk = desk_of(sh.ArrayDeserializer({"x": np.arange(40)}), max_sweeps=1)
    old = desk.take(10).tickets
    new = desk.take(10).tickets
    assert desk.expire(older_than=11).tolist() == old[:9, 0].tolist()
    assert desk.done(old).tolist() == old[:, 0].tolist(), "a late answer counts"
    assert desk.expire(older_than=0).tolist() == new[:, 0].tolist()


def double(sequence: Any) -> Any:
    return {"x": sequence["x"] * 2}


def triple(sequence: Any) -> Any:
    return {"x": sequence["x"] * 3}


def test_no_loan_reaches_over_another_version_of_a_map() -> None:
    mapped = sh.ArrayDeserializer({"x": np.arange(1, 21)}).map(
        double, name="many", versions={2: triple}
    )
    lender = source(mapped, randomize=False, max_sweeps=1)
    desk = lender.lend()
    early = desk.take(4)
    lender.events.map_version("many", 2, at=6)
    assert desk.take(9).minibatch["x"].values.tolist() == [10, 12]
    late = desk.take(3)
    assert late.minibatch["x"].values.tolist() == [21, 24, 27]
    desk.give_back(late.tickets)
    desk.give_back(early.tickets)
    assert desk.take(20).minibatch["x"].values.tolist() == [2, 4, 6, 8]
    assert desk.take(4).minibatch["x"].values.tolist() == [21, 24, 27, 30]


def test_other_weights_change_what_comes_and_nothing_that_was_lent() -> None:
    limits = {"max_sweeps": 2**64 - 1, "max_samples": 200}
    lender = source(mixed(), **limits)
    desk = lender.lend()
    first = desk.take(6)
    lender.events.weights({"a": 5, "b": 1})
    second = desk.take(12)
    with source(mixed(), events=list(lender.events), **limits) as plain:
        ids = plain.sequence_ids(0, desk.position)
    assert first.minibatch.ids + second.minibatch.ids == ids
    for loan in (second, first):
        desk.give_back(loan.tickets)
    assert desk.take(18).minibatch.ids == ids


def fragile(sequence: Any) -> Any:
    if sequence["x"][0] % 5 == 0:
        raise ValueError("it breaks")
    return {"x": sequence["x"]}


def test_damaged_sequences_are_dropped_within_the_budget_and_else_nothing_is_lent() -> None:
    mapped = sh.ArrayDeserializer({"x": np.arange(1, 21)}).map(fragile, name="fragile")
    desk = desk_of(mapped, max_sweeps=1, randomize=False, max_errors=4, copies=2)
    loan = desk.take(7)
    assert loan.minibatch["x"].values.tolist() == [1, 2, 3, 4, 6, 7]
    assert loan.tickets.shape == (6, 2)
    while not desk.is_finished:
        desk.expire(0)
        desk.done(desk.take(3).tickets)
    assert desk.report()["dropped"] == {"damaged": 8}
    assert desk.report()["trained"] == 32
    strict = desk_of(mapped, max_sweeps=1, randomize=False)
    for _ in range(2):
        with pytest.raises(sh.DataError, match="it breaks"):
            strict.take(7)
    assert strict.report()["out"] == 0
    assert strict.take(4).minibatch["x"].values.tolist() == [1, 2, 3, 4]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_lends_nothing() -> None:
    desk = desk_of()
    child = os.fork()
    if child == 0:
        try:
            desk.take(1)
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    with pytest.raises(TypeError):
        pickle.dumps(desk)


def test_a_desk_is_in_the_checkpoint_of_its_trainer(tmp_path: Path) -> None:
    desk = desk_of()
    loan = desk.take(3)
    desk.done(loan.tickets[1])
    line_trainer(stateful={"desk": desk}).save_checkpoint(tmp_path)
    again = desk_of()
    line_trainer(stateful={"desk": again}).restore_from_checkpoint(tmp_path)
    assert again.take(2).tickets.tolist() == loan.tickets[[0, 2]].tolist()
    assert again.position == desk.position
