"""The sequences of a timeline one by one, and again where they were served."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from sweephand import _core
from sweephand.corpus.assembler import make_assembler
from sweephand.corpus.columns import offsets_of
from sweephand.layouts import padding_of

if TYPE_CHECKING:
    from sweephand.minibatch.contents import Contents
    from sweephand.source.cursor import Cursor

# The state of a copy that is not out; of one that is out it is the nominal time of its loan.
EXPIRED, GIVEN_BACK, ENDED = -1, -2, -3

_TICKET_BITS = 48
_MOST_SWEEPS = 2**13  # between two sequences of a minibatch: maps know sweeps by 16 bits


@dataclass(slots=True)
class Lent:
    """A sequence of a sweep, and the state of each of its copies."""

    time: int  # nominal, where it begins
    number: int  # in the corpus
    size: int  # in samples
    corpus: str  # of a mixture; "" if there is one
    first_ticket: int  # without the bits of the desk
    copies: list[int]

    @property
    def is_waiting(self) -> bool:
        """True if a copy can be lent."""
        return EXPIRED in self.copies or GIVEN_BACK in self.copies


class Supply:
    """The sequences of a plan, in the order of its timeline from a time on, banned or not.

    The layout of the plan takes whole sequences in order.
    """

    def __init__(self, cursor: Cursor, time: int, copies: int) -> None:
        self.plan = plan = cursor.plan
        self._cursor, self._copies = cursor, copies
        served = replace(plan.effects, bans=()).core
        self._ahead = _core.compose.EventPlanner(plan.order, self._planner(), served)
        self._ahead.seek(time)
        self._again = self._planner()
        self._request = plan.whole_request(1, crosses_sweeps=True)  # a longer one goes alone
        parts = plan.corpus.parts
        self._names = list(parts)
        self._firsts = offsets_of([one.num_sequences for one in parts.values()]).tolist()
        self._samples = [one.core.num_samples for one in parts.values()]

    def _planner(self) -> _core.compose.Planner:
        plan = self.plan
        return _core.compose.Planner(plan.order, _core.compose.Fitting(), plan.end)

    @property
    def time(self) -> int:
        """Where the next sequence begins, or the end of the data."""
        return self._ahead.time

    def next(self) -> tuple[Lent, _core.compose.Plan] | None:
        """Return the next new sequence and its plan; None at the end of the data."""
        planned = self._ahead.next_to_read(self._request)
        return None if planned.end_of_data else (self._found(planned), planned)

    def at(self, time: int) -> tuple[Lent, _core.compose.Plan]:
        """Return the sequence that begins at a nominal time; ValueError if none does."""
        if self._again.time != time:  # as that of neighbours is not
            self._again.seek(time)
        planned = self._again.next(self._request)
        if planned.end_of_data or planned.nominal_time != time:
            raise ValueError(f"no sequence begins at {time}")
        return self._found(planned), planned

    @cached_property
    def _assembler(self) -> _core.engine.Assembler:
        corpus, layout = self.plan.corpus, self.plan.layout
        return make_assembler(
            corpus,
            layout.assemble_options,
            partial(padding_of, layout),
            load_ahead=False,
            report=self.plan.opened.ledger.report_by(corpus.ids),
            readers=self._cursor.readers,
        )

    def read(
        self, plans: Sequence[_core.compose.Plan]
    ) -> tuple[_core.engine.Batch, Contents, list[int]]:
        """Return a minibatch of planned sequences, and which of them it has.

        Those that are skipped as damaged are not there.
        """
        _ = self._cursor.readers  # an error if the source is closed
        planned = _core.compose.join_plans(plans)
        batch = self._assembler.assemble(planned)
        kept = list(range(planned.share_size))
        if batch.share_size < planned.share_size:
            wanted, found = (
                list(zip(one.sequences().tolist(), one.sweeps().tolist(), strict=True))
                for one in (planned, batch)
            )
            kept = [place for place, one in enumerate(wanted) if one in found]
        return batch, self.plan.contents, kept

    def _found(self, planned: _core.compose.Plan) -> Lent:
        (number,), time = planned.sequences().tolist(), planned.nominal_time
        part = bisect_right(self._firsts, number) - 1
        place = self._sweep(part, time) * self._firsts[-1] + number
        first_ticket = place * self._copies
        if (first_ticket + self._copies) >> _TICKET_BITS:
            raise OverflowError(
                f"the tickets of {self._firsts[-1]} sequences in {self._copies} copies have "
                f"reached {_TICKET_BITS} bits at nominal time {time}"
            )
        never = [EXPIRED] * self._copies
        return Lent(time, number, planned.num_samples, self._names[part], first_ticket, never)

    def _sweep(self, part: int, time: int) -> int:
        """Return the sweep in which a corpus is at a nominal time."""
        own = time if self.plan.corpus.has_sweeps else self.plan.order.own_times(time)[part]
        return own // self._samples[part]

    def place_of(self, ticket: int) -> tuple[int, int, int]:
        """Return the sweep, the sequence and the copy of a ticket without the desk's bits."""
        place, copy = divmod(ticket, self._copies)
        sweep, number = divmod(place, self._firsts[-1])
        return sweep, number, copy

    def comes_before(self, ticket: int, time: int) -> bool:
        """Return True if the sequence of a ticket begins before a nominal time."""
        sweep, number, _ = self.place_of(ticket)
        # No later sweep is looked for, which could lie beyond all numbers.
        if sweep > self._sweep(bisect_right(self._firsts, number) - 1, time):
            return False
        try:
            return self.plan.order.find(number, sweep) < time
        except ValueError:  # the corpora of a mixture end before
            return False

    def go_together(self, first: Lent, later: Lent) -> bool:
        """Return True if two sequences can be of one minibatch, by maps that change."""
        cuts = self.plan.effects.cuts
        is_near = later.time - first.time < _MOST_SWEEPS * min(self._samples)
        return is_near and bisect_right(cuts, first.time) == bisect_right(cuts, later.time)
