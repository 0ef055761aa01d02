"""A desk that lends the sequences of a source, each once in its sweep."""

from __future__ import annotations

import heapq
import os
import threading
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand import _core
from sweephand.base.checks import check_choice, check_int
from sweephand.corpus.ids import hash_of
from sweephand.errors import ArgumentTypeError, StateError, shown
from sweephand.loans.supply import ENDED, EXPIRED, GIVEN_BACK, Lent, Supply
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.share import Position

if TYPE_CHECKING:
    from sweephand.source.source import MinibatchSource

Repeated = Literal["error", "ignore"]

_STATE_VERSION = 1
_DESK_SHIFT = 48
_NOT_LENT = -1
_KINDS = ("served", "out", "waiting", "trained", "given_back", "expired")


class LoanError(StateError):
    """A ticket is not out; `ticket`, and the id of its `sequence` if known, say which.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.LoanError("the ticket 7 has ended", 7, "array__3").sequence
    'array__3'
    """

    def __init__(self, message: str, ticket: int = -1, sequence: str | None = None) -> None:
        super().__init__(message, ticket, sequence)
        self.ticket = ticket
        self.sequence = sequence

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, eq=False)
class Loan:
    """Sequences on loan: falsy if nothing can be lent now.

    Attributes
    ----------
    tickets : ndarray of int64, shape (sequences, copies)
        In the order of the timeline and of the minibatch; -1 where a copy is not lent.
    minibatch : Minibatch
        The sequences.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> source = sh.MinibatchSource({"x": np.arange(3)}, max_sweeps=1, randomize=False)
    >>> loan = source.lend(copies=2).take(2)
    >>> loan.tickets.shape, loan.minibatch["x"].values
    ((2, 2), array([0, 1]))
    """

    tickets: NDArray[np.int64]
    minibatch: Minibatch

    def __bool__(self) -> bool:
        return len(self.tickets) > 0


class Desk:
    """Lends the sequences of a source: `MinibatchSource.lend` makes it.

    Every copy of every sequence is trained once in its sweep, or dropped for a reason, in
    whatever order loans end. New sequences come in the order of the timeline; before them come
    those that were given back or have expired and, after a load, what was out at the save.
    A banned sequence is dropped unless it is trained. Any number of threads may call it.

    Parameters
    ----------
    source : MinibatchSource
        With a layout of whole sequences in order. From now on it serves by the desk alone, and
        its position is that of the desk; RuntimeError is raised if it lends already.
    copies : int
        Tickets of each sequence, such as rollouts of a prompt.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> desk = sh.MinibatchSource({"prompt": np.arange(5)}, max_sweeps=1).lend()
    >>> while not desk.is_finished:
    ...     loan = desk.take(2)
    ...     _ = desk.done(loan.tickets)
    >>> desk.report()["trained"]
    5
    """

    def __init__(self, source: MinibatchSource, copies: int = 1) -> None:
        self._copies = check_int("copies", copies, 1, 2**16)
        cursor = source.cursor
        if not cursor.plan.layout.fits_in_order:
            raise ValueError(
                f"loans are of whole sequences in order, not of {cursor.plan.layout!r}: take "
                "sh.Ragged() or sh.Padded(), and pack results by sh.plan_lengths"
            )
        cursor.check_serves()
        self._source = source
        self._process = os.getpid()
        self._lock = threading.RLock()
        described = repr(sorted({**cursor.plan.state_at(Position(0)), "events": ""}.items()))
        # In [1, 2^15): tickets are positive.
        self._desk = int(hash_of([described.encode()])[:8], 16) % (2**15 - 1) + 1
        self._counts = Counter[tuple[str, int, str]]()
        self._start(Supply(cursor, cursor.time, self._copies), [])
        cursor.lender = self

    def _start(self, supply: Supply, lent: list[Lent]) -> None:
        self._open = {one.first_ticket: one for one in lent}  # what has copies that can end
        self._waiting = [(one.time, one.first_ticket) for one in lent if one.is_waiting]
        heapq.heapify(self._waiting)
        self._follow(supply)

    def follow_events(self) -> None:
        """Lend by the events that the source has now."""
        with self._held():
            self._follow(Supply(self._source.cursor, self.position, self._copies))

    def _follow(self, supply: Supply) -> None:
        self._supply = supply
        self._next: tuple[Lent, _core.compose.Plan] | None = None
        self._banned: set[int] = set()
        self._bans = sorted(supply.plan.effects.bans, key=lambda ban: -ban[0])  # last first
        self._ban()

    @property
    def position(self) -> int:
        """Nominal time of the first sequence that was not served yet."""
        with self._held():
            return self._time

    @property
    def _time(self) -> int:  # for each ticket: without the lock, which takes a quarter of it
        return self._next[0].time if self._next else self._supply.time

    @contextmanager
    def _held(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise RuntimeError(
                "a desk lends in the process that made it; others ask there, as by "
                "sh.ray.LoanDesk or sh.torch.distributed.RankDesk"
            )
        with self._lock:
            yield

    def take(self, n: int) -> Loan:
        """Borrow the next sequences, at most n, with all their copies that are not out.

        There are fewer at the end of the data, where a map takes another version, and if
        damaged ones are skipped, within ``max_errors``: these are dropped as "damaged". After
        a DataError nothing is lent, so that another call tries again.
        """
        check_int("n", n)
        while True:
            with self._held():
                chosen, supply = self._choose(n), self._supply
            tickets = np.array([tickets for _, _, tickets in chosen], np.int64)
            tickets = tickets.reshape(-1, self._copies)
            try:
                batch, contents, kept = supply.read([plan for _, plan, _ in chosen])
            except BaseException:
                self._close(tickets, "ignore", partial(self._wait, state=EXPIRED))
                raise
            if len(kept) < len(chosen):
                self.drop(np.delete(tickets, kept, axis=0), "damaged", "ignore")
            if kept or not chosen:
                return Loan(tickets[kept], Minibatch(batch, contents))

    def _choose(self, n: int) -> list[tuple[Lent, _core.compose.Plan, list[int]]]:
        """Lend sequences: those that wait first, then new ones."""
        while True:
            chosen: list[tuple[Lent, _core.compose.Plan, list[int]]] = []
            while len(chosen) < n and (found := self._first()):
                if chosen and not self._supply.go_together(chosen[0][0], found[0]):
                    break
                if found is self._next:
                    self._next = None
                    self._open[found[0].first_ticket] = found[0]
                chosen.append((*found, self._lend(found[0])))
            self._peek()
            # A ban that holds from in between has ended some.
            left = [one for one in chosen if one[0].first_ticket in self._open]
            if left or not chosen:
                return left

    def _lend(self, lent: Lent) -> list[int]:
        """Return the ticket of each copy that can be lent, else -1."""
        tickets = [_NOT_LENT] * self._copies
        for copy, state in enumerate(lent.copies):
            if state in (EXPIRED, GIVEN_BACK):
                lent.copies[copy] = self._time
                tickets[copy] = self._desk << _DESK_SHIFT | lent.first_ticket + copy
                self._count(lent, "served")
        return tickets

    def _first(self) -> tuple[Lent, _core.compose.Plan] | None:
        while self._waiting:
            lent = self._open.get(self._waiting[0][1])
            if lent is not None and lent.is_waiting:
                return lent, self._supply.at(lent.time)[1]
            heapq.heappop(self._waiting)
        return self._peek()

    def _peek(self) -> tuple[Lent, _core.compose.Plan] | None:
        """Return the next new sequence that is not banned; the position is there."""
        while self._next is None:
            found = self._supply.next()
            if found is None:
                break
            self._next = found
            self._ban()
            if found[0].number in self._banned:
                self._next = None
                self._count(found[0], "dropped banned", self._copies)
        self._ban()
        return self._next

    def _ban(self) -> None:
        """Let the bans hold that the position has reached, for what is not trained."""
        new: set[int] = set()
        while self._bans and self._bans[-1][0] <= self._time:
            new.update(self._bans.pop()[1].tolist())
        if not new:
            return
        self._banned |= new
        for lent in [one for one in self._open.values() if one.number in new]:
            for copy, state in enumerate(lent.copies):
                if state != ENDED:
                    self._end(lent, copy, "dropped banned")

    def done(self, tickets: ArrayLike, repeated: Repeated = "error") -> NDArray[np.int64]:
        """End loans whose sequences are trained, all of them or none.

        A late answer to a ticket that has expired counts.

        Parameters
        ----------
        tickets : array of int, any shape
            Entries of -1 are passed over.
        repeated : {"error", "ignore"}
            What happens to tickets that have ended before, as of messages that come twice.

        Returns
        -------
        ndarray of int64, shape (tickets,)
            Those that count now: whose sequences are to be trained, if this is asked before.

        Raises
        ------
        LoanError
            If a ticket has ended, was given back, was never lent, or is of another desk.
        """
        return self._close(tickets, repeated, partial(self._end, kind="trained"))

    def give_back(self, tickets: ArrayLike, repeated: Repeated = "error") -> None:
        """End loans whose sequences are wanted again; otherwise as `done`."""
        close = partial(self._wait, state=GIVEN_BACK)
        self._close(tickets, repeated, close, also_before=GIVEN_BACK)

    def drop(self, tickets: ArrayLike, reason: str, repeated: Repeated = "error") -> None:
        """End loans whose sequences are never trained in this sweep; otherwise as `done`.

        `report` counts them by their reason.
        """
        if not isinstance(reason, str):
            raise ArgumentTypeError(f"reason must be a text, got {shown(reason)}")
        self._close(tickets, repeated, partial(self._end, kind=f"dropped {reason}"))

    def expire(self, older_than: int) -> NDArray[np.int64]:
        """Let loans expire whose takers may be gone, and return their tickets: (tickets,).

        Their sequences come again, first. `older_than` is the samples that the position has
        moved by since the loan; 0: all that is out. At the end of the data the position rests,
        and only 0 is sure to find the last loans.
        """
        check_int("older_than", older_than, 0)
        expired: list[int] = []
        with self._held():
            latest = self.position - older_than
            for lent in sorted(self._open.values(), key=lambda one: one.time):
                for copy, since in enumerate(lent.copies):
                    if 0 <= since <= latest:
                        self._wait(lent, copy, EXPIRED)
                        expired.append(self._desk << _DESK_SHIFT | lent.first_ticket + copy)
        return np.array(expired, np.int64)

    @property
    def is_finished(self) -> bool:
        """True at the end of the data, if all loans have ended."""
        with self._held():
            return self._peek() is None and not self._open

    def _close(
        self,
        tickets: ArrayLike,
        repeated: Repeated,
        close: Callable[[Lent, int], None],
        also_before: int = ENDED,
    ) -> NDArray[np.int64]:
        check_choice("repeated", repeated, "error", "ignore")
        given = np.asarray(tickets)
        if given.size and given.dtype.kind not in "iu":
            raise ArgumentTypeError(f"tickets are integers, got {shown(tickets)}")
        found: dict[int, tuple[Lent, int]] = {}
        with self._held():
            for ticket in given[given != _NOT_LENT].tolist():
                lent, copy = self._find(ticket)
                state = ENDED if lent is None or ticket in found else lent.copies[copy]
                if repeated == "ignore" and state in (ENDED, also_before):
                    continue
                if lent is None or state == ENDED:
                    self._refuse(ticket, "has ended: it is trained or dropped")
                if state == GIVEN_BACK:
                    self._refuse(ticket, "was given back: it can be taken again")
                found[ticket] = lent, copy
            for lent, copy in found.values():
                close(lent, copy)
        return np.array(list(found), np.int64)

    def _find(self, ticket: int) -> tuple[Lent | None, int]:
        """Return the sequence and the copy of a ticket; None: all its copies have ended."""
        desk, place = divmod(ticket, 1 << _DESK_SHIFT)
        if desk != self._desk:
            raise LoanError(f"the ticket {ticket} is of another desk", ticket)
        copy = place % self._copies
        lent = self._open.get(place - copy)
        if lent is None and not self._supply.comes_before(place, self._time):
            self._refuse(ticket, "was not lent yet")
        return lent, copy

    def _refuse(self, ticket: int, reason: str) -> NoReturn:
        sweep, number, copy = self._supply.place_of(ticket % (1 << _DESK_SHIFT))
        name = self._supply.plan.corpus.ids.names(np.array([number], np.uint64))[0]
        raise LoanError(
            f"the ticket {ticket}, of copy {copy} of {name!r} in sweep {sweep}, {reason}",
            ticket,
            name,
        )

    def _wait(self, lent: Lent, copy: int, state: int) -> None:
        lent.copies[copy] = state
        heapq.heappush(self._waiting, (lent.time, lent.first_ticket))
        self._count(lent, "expired" if state == EXPIRED else "given_back")

    def _end(self, lent: Lent, copy: int, kind: str) -> None:
        lent.copies[copy] = ENDED
        self._count(lent, kind)
        if all(state == ENDED for state in lent.copies):
            del self._open[lent.first_ticket]

    def _count(self, lent: Lent, kind: str, number: int = 1) -> None:
        self._counts[_key(lent, kind)] += number

    def report(self) -> dict[str, Any]:
        """Return what became of the tickets.

        That is ``position``; ``served``, with those that were served again; ``out`` and
        ``waiting`` now; ``trained``, ``given_back``, ``expired``; and ``dropped``, a dict by
        reason. The same but for the position in ``by_corpus``, by the corpus of a mixture, and
        ``by_length``, by the power of two that a sequence's length is at most.
        """
        with self._held():
            counts, position = self._counts.copy(), self.position
            for lent in self._open.values():
                for state in lent.copies:
                    counts[_key(lent, "waiting" if state < 0 else "out")] += state != ENDED
        table = {"position": position, **_table(counts)}
        for place, name in enumerate(("by_corpus", "by_length")):
            values = sorted({key[place] for key in counts} - {""})
            table[name] = {
                value: _table({key: n for key, n in counts.items() if key[place] == value})
                for value in values
            }
        return table

    def state_dict(self) -> dict[str, Any]:
        """Return the state: JSON of a few bytes for each sequence that is out or waits."""
        with self._held():
            lent = sorted(self._open.values(), key=lambda one: one.time)
            counts = self._counts.copy()
            for one in lent:
                counts[_key(one, "expired")] += sum(state >= 0 for state in one.copies)
            states = [[min(state, EXPIRED) for state in one.copies] for one in lent]
            return {
                "version": _STATE_VERSION,
                "source": self._source.get_checkpoint_state(),
                "copies": self._copies,
                "desk": self._desk,
                "times": _packed(np.diff([one.time for one in lent], prepend=0)),
                "states": _packed(states),
                "counts": [[*key, count] for key, count in sorted(counts.items()) if count],
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to where a state was taken: what was out then comes again, first.

        A StateError, if it is of another desk, corpus or order, leaves the desk unchanged.
        """
        with self._held():
            supply, lent, counts, desk = self._read(state)
            self._desk, self._counts = desk, counts
            self._start(supply, lent)

    def _read(
        self, state: Mapping[str, Any]
    ) -> tuple[Supply, list[Lent], Counter[tuple[str, int, str]], int]:
        given: object = state
        if not isinstance(given, Mapping) or given.get("version") != _STATE_VERSION:
            raise StateError(f"this is no state of a desk of version {_STATE_VERSION}")
        try:
            if state["copies"] != self._copies:
                raise StateError(
                    f"the state is of {state['copies']} copies, the desk lends {self._copies}"
                )
            times = np.cumsum(_unpacked(state["times"])).tolist()
            states = _unpacked(state["states"]).reshape(len(times), self._copies)
            is_known = np.isin(states, [EXPIRED, GIVEN_BACK, ENDED]).all()
            if not is_known or (states == ENDED).all(axis=1).any():
                raise ValueError("what is out has no copies that wait")
            counts = Counter(
                {(str(corpus), int(length), str(kind)): int(number)
                 for corpus, length, kind, number in state["counts"]}
            )  # fmt: skip
            desk = check_int("desk", state["desk"], 1, 2**15)
            cursor = self._source.cursor
            cursor.lender = None  # else the source moves by its desk alone
            try:
                self._source.restore_from_checkpoint(state["source"])
                time = cursor.time
            finally:
                cursor.lender = self
            supply = Supply(cursor, time, self._copies)
            lent = [supply.at(one)[0] for one in times]
            for one, copies in zip(lent, states.tolist(), strict=True):
                one.copies = copies
            if any(one >= time for one in times) or len({one.time for one in lent}) < len(lent):
                raise ValueError("the times of what is out do not ascend to the position")
        except StateError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError, zlib.error) as error:
            raise StateError(f"the state of the desk is damaged: {error!r}") from error
        return supply, lent, counts, desk


def _key(lent: Lent, kind: str) -> tuple[str, int, str]:
    return lent.corpus, 1 << (lent.size - 1).bit_length(), kind


def _table(counts: Mapping[tuple[str, int, str], int]) -> dict[str, Any]:
    """Return the sums of counts by their kind."""
    sums = Counter[str]()
    for (*_, kind), number in counts.items():
        sums[kind] += number
    dropped = {kind[8:]: n for kind, n in sorted(sums.items()) if kind.startswith("dropped ")}
    return {kind: sums[kind] for kind in _KINDS} | {"dropped": dropped}


def _packed(numbers: ArrayLike) -> str:
    return b64encode(zlib.compress(np.asarray(numbers, "<i8").tobytes())).decode()


def _unpacked(text: str) -> NDArray[np.int64]:
    return np.frombuffer(zlib.decompress(b64decode(text)), "<i8").astype(np.int64)


class RemoteDesk:
    """The face of a `Desk` that is elsewhere; `ask` carries calls to it.

    `repeated` is what happens to tickets that have ended before, where a call does not say.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> from sweephand.extend import RemoteDesk
    >>> class Here(RemoteDesk):
    ...     desk = sh.MinibatchSource({"x": np.arange(3)}, max_sweeps=1).lend()
    ...     def ask(self, name, *arguments):
    ...         return self.taken(self.answer(self.desk, name, arguments))
    >>> len(Here().take(2).tickets), Here().is_finished
    (2, False)
    """

    repeated: Repeated = "error"

    def ask(self, name: str, *arguments: Any) -> Any:
        """Return what the desk answers to the call of a method, or raise its error."""
        raise NotImplementedError

    @staticmethod
    def answer(
        desk: Desk, name: str, arguments: tuple[Any, ...]
    ) -> tuple[Any, Exception | None]:
        """Return the result of a method, or of a property, and its error: where the desk is."""
        try:
            found = getattr(desk, name)
            return (found(*arguments) if callable(found) else found), None
        except Exception as error:
            return None, error

    @staticmethod
    def taken(answer: tuple[Any, Exception | None]) -> Any:
        """Return the result of an answer, or raise its error."""
        found, error = answer
        if error is not None:
            raise error
        return found

    def take(self, n: int) -> Loan:
        """Borrow the next sequences: `Desk.take`."""
        loan: Loan = self.ask("take", n)
        return loan

    def done(self, tickets: ArrayLike, repeated: Repeated | None = None) -> NDArray[np.int64]:
        """End loans whose sequences are trained, and return those that count: `Desk.done`."""
        counted: NDArray[np.int64] = self.ask("done", tickets, repeated or self.repeated)
        return counted

    def give_back(self, tickets: ArrayLike, repeated: Repeated | None = None) -> None:
        """End loans whose sequences are wanted again: `Desk.give_back`."""
        self.ask("give_back", tickets, repeated or self.repeated)

    def drop(self, tickets: ArrayLike, reason: str, repeated: Repeated | None = None) -> None:
        """End loans whose sequences are never trained in this sweep: `Desk.drop`."""
        self.ask("drop", tickets, reason, repeated or self.repeated)

    def expire(self, older_than: int) -> NDArray[np.int64]:
        """Let loans expire whose takers may be gone: `Desk.expire`."""
        expired: NDArray[np.int64] = self.ask("expire", older_than)
        return expired

    @property
    def is_finished(self) -> bool:
        """True at the end of the data, if all loans have ended."""
        return bool(self.ask("is_finished"))

    def report(self) -> dict[str, Any]:
        """Return what became of the tickets: `Desk.report`."""
        return dict(self.ask("report"))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the desk."""
        return dict(self.ask("state_dict"))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to where a state was taken: `Desk.load_state_dict`."""
        self.ask("load_state_dict", state)
