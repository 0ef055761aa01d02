"""A desk beside a model of it, under takers that answer late, twice, never and out of order."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

import sweephand as sh

OUT, EXPIRED, BACK, ENDED = "out", "expired", "back", "ended"


@dataclass
class Line:
    """What a source serves, in order, as a plain loop over it finds it."""

    names: list[str]
    values: list[list[int]]
    times: list[int]
    sweeps: list[int]
    numbers: list[int]
    num_sequences: int

    @classmethod
    def of(cls, source: sh.MinibatchSource) -> Line:
        seen = Counter[str]()
        line = cls([], [], [], [], [], source.num_sequences_per_sweep)
        while minibatch := source.next_minibatch(1):
            (name,) = minibatch.ids
            line.names.append(name)
            line.values.append(minibatch["x"].values.tolist())
            line.times.append(minibatch.nominal_time)
            is_mixed = not source.timeline.corpus.has_sweeps
            sweep = minibatch.nominal_time // source.num_samples_per_sweep
            line.sweeps.append(seen[name] if is_mixed else sweep)
            line.numbers.append(source.timeline.corpus.ids.number_of(name))
            seen[name] += 1
        line.times.append(source.current_position)
        return line


@dataclass
class Model:
    """The desk as its laws say it, of places on the line; nothing is fast or saved."""

    line: Line
    copies: int
    next: int = 0
    states: dict[int, list[str]] = field(default_factory=dict)
    trained: Counter[tuple[int, int]] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    bans: list[tuple[int, str]] = field(default_factory=list)

    @property
    def position(self) -> int:
        return self.line.times[self.next]

    def is_banned(self, place: int) -> bool:
        name = self.line.names[place]
        return any(at <= self.position and name == one for at, one in self.bans)

    def hold_bans(self) -> None:
        for place, states in self.states.items():
            if self.bans and self.is_banned(place):
                self.dropped["banned"] += sum(state != ENDED for state in states)
                states[:] = [ENDED] * self.copies

    def peek(self) -> None:
        while True:
            self.hold_bans()
            if self.next == len(self.line.names) or not self.is_banned(self.next):
                return
            self.states[self.next] = [ENDED] * self.copies
            self.dropped["banned"] += self.copies
            self.next += 1

    def take(self, n: int) -> list[tuple[int, list[int]]]:
        """Return the places on the line that are lent, with their copies."""
        lent: list[tuple[int, list[int]]] = []
        while len(lent) < n:
            waiting = [
                place for place, own in self.states.items() if {EXPIRED, BACK} & set(own)
            ]
            if not waiting:
                self.peek()
                if self.next == len(self.line.names):
                    break
                waiting = [self.next]
                self.states[self.next] = [EXPIRED] * self.copies
                self.next += 1
            own = self.states[min(waiting)]
            copies = [copy for copy, state in enumerate(own) if state in (EXPIRED, BACK)]
            for copy in copies:
                own[copy] = OUT
            lent.append((min(waiting), copies))
        self.peek()
        left = [one for one in lent if set(self.states[one[0]]) != {ENDED}]
        return left if left or not lent else self.take(n)

    def close(
        self, given: list[tuple[int, int]], repeated: str, end: Callable[[int, int], None]
    ) -> list[tuple[int, int]] | None:
        """Return what counts; None if it is refused."""
        counts: list[tuple[int, int]] = []
        for place, copy in given:
            if place >= self.next:
                return None
            state = self.states[place][copy]
            if state == ENDED or (place, copy) in counts:
                if repeated == "error":
                    return None
            elif state == BACK:
                if repeated == "error" or end != self.give_back:
                    return None
            else:
                counts.append((place, copy))
        for one in counts:
            end(*one)
        return counts

    def done(self, place: int, copy: int) -> None:
        self.states[place][copy] = ENDED
        self.trained[place, copy] += 1

    def drop(self, place: int, copy: int) -> None:
        self.states[place][copy] = ENDED
        self.dropped["no signal"] += 1

    def give_back(self, place: int, copy: int) -> None:
        self.states[place][copy] = BACK

    def copy(self) -> Model:
        states = {place: list(own) for place, own in self.states.items()}
        counts = self.trained.copy(), self.dropped.copy()
        return Model(self.line, self.copies, self.next, states, *counts, list(self.bans))

    def expire(self) -> list[tuple[int, int]]:
        expired = []
        for place, states in sorted(self.states.items()):
            for copy, state in enumerate(states):
                if state == OUT:
                    states[copy] = EXPIRED
                    expired.append((place, copy))
        return expired


class Simulation:
    """A random run of a desk and its model."""

    def __init__(
        self, source: sh.MinibatchSource, line: Line, seed: int, *, may_ban: bool = False
    ) -> None:
        self.draw = random.Random(seed)
        self.source, self.line, self.may_ban = source, line, may_ban
        self.copies = self.draw.choice([1, 1, 2, 3])
        self.model = Model(line, self.copies)
        self.desk = self.new_desk()
        self.bits = int(self.desk.state_dict()["desk"])
        self.held: list[list[tuple[int, int]]] = []  # by takers, who may be late
        self.saved = [self.save()]

    def new_desk(self) -> sh.Desk:
        """Return the desk of another process, as far as the source knows."""
        self.source.cursor.lender = None
        self.source.position = (0, ())
        return self.source.lend(self.copies)

    def ticket(self, place: int, copy: int) -> int:
        sweep, number = self.line.sweeps[place], self.line.numbers[place]
        own = (sweep * self.line.num_sequences + number) * self.copies + copy
        return self.bits << 48 | own

    def run(self, steps: int) -> None:
        """Run, and then until all is trained."""
        actions = [self.take, self.take, self.answer, self.answer, self.answer, self.expire]
        actions += [self.load] if self.draw.random() < 0.7 else []
        actions += [self.ban] if self.may_ban else []
        for _ in range(steps):
            self.draw.choice(actions)()
            assert self.desk.position == self.model.position
            if self.draw.random() < 0.2:
                self.saved.append(self.save())
        while not self.desk.is_finished:
            self.model.peek()
            self.expire()
            self.take()
            for tickets in self.held[-1:]:
                self.close(tickets, "done", "error")
        self.check_end()

    def check_end(self) -> None:
        """Check that every copy was trained once, or is counted with a reason."""
        report = self.desk.report()
        trained = sum(self.model.trained.values())
        assert set(self.model.trained.values()) <= {1}
        assert report["trained"] == trained
        assert report["dropped"] == {k: n for k, n in self.model.dropped.items() if n}
        total = len(self.line.names) * self.copies
        assert trained + sum(self.model.dropped.values()) == total
        assert report["out"] == report["waiting"] == 0

    def take(self) -> None:
        loan, expected = self.desk.take(n := self.draw.randint(1, 6)), self.model.take(n)
        places = [place for place, _ in expected]
        assert bool(loan) == bool(places)
        assert loan.minibatch.ids == [self.line.names[place] for place in places]
        if loan:
            data = loan.minibatch["x"].as_sequences()
            assert [one.tolist() for one in data] == [self.line.values[i] for i in places]
        rows = np.full((len(expected), self.copies), -1)
        for row, (place, copies) in enumerate(expected):
            rows[row, copies] = [self.ticket(place, copy) for copy in copies]
        assert loan.tickets.tolist() == rows.tolist()
        self.held.append([(place, copy) for place, copies in expected for copy in copies])

    def answer(self) -> None:
        """A taker answers for some of what it has taken, at some time, and perhaps again."""
        if not self.held:
            return
        taker = self.draw.choice(self.held[-8:])
        some = self.draw.sample(taker, self.draw.randint(0, len(taker)))
        if some and self.draw.random() < 0.1:
            some += some[:1]
        how = self.draw.choices(["done", "drop", "give_back"], [6, 1, 2])[0]
        self.close(some, how, self.draw.choice(["error", "ignore"]))

    def close(self, some: list[tuple[int, int]], how: str, repeated: str) -> None:
        expected = self.model.close(some, repeated, getattr(self.model, how))
        tickets = [self.ticket(*one) for one in some]
        arguments: list[Any] = ["no signal"] if how == "drop" else []
        close = partial(getattr(self.desk, how), tickets, *arguments, repeated=repeated)
        if expected is None:
            with pytest.raises(sh.LoanError) as refused:
                close()
            assert refused.value.ticket in tickets
            return
        counted = close()
        if how == "done":
            assert counted.tolist() == [self.ticket(*one) for one in expected]

    def expire(self) -> None:
        expected = [self.ticket(*one) for one in self.model.expire()]
        assert self.desk.expire(older_than=0).tolist() == expected

    def ban(self) -> None:
        name = self.draw.choice(self.line.names)
        at = self.model.position + self.draw.choice([0, 0, self.draw.randint(1, 20)])
        self.source.events.ban([name], None if at == self.model.position else at)
        self.model.bans.append((at, name))
        self.model.hold_bans()

    def save(self) -> tuple[str, Model]:
        return json.dumps(self.desk.state_dict()), self.model.copy()

    def load(self) -> None:
        """The run is killed, and goes on from a checkpoint; takers may live on."""
        number = self.draw.randrange(len(self.saved))
        del self.saved[number + 1 :]  # a run that goes back writes these again
        state, model = self.saved[number]
        if self.draw.random() < 0.5:
            self.desk = self.new_desk()
        self.desk.load_state_dict(json.loads(state))
        bans = self.model.bans
        self.model = model.copy()
        self.model.expire()
        self.model.bans = bans
        self.model.hold_bans()
