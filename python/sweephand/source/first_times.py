"""When sequences are delivered for the first time, by the plan alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np

from sweephand.source.plan import Plan


def first_times(
    plan: Plan, numbers: Sequence[Sequence[int]], end: int, size: int
) -> list[int | None]:
    """Return when sequences come first by a plan.

    Parameters
    ----------
    numbers : sequence of sequence of int
        Sequences by their numbers in the corpus; what was made of one counts as one.
    end : int
        Up to this nominal time.
    size : int
        Of minibatches, over all workers; it matters to layouts that are made by it.

    Returns
    -------
    list of int or None
        A nominal time for each; None if it does not come before `end`.
    """
    # In the large parts of a mixture a small corpus has many sweeps, each a search.
    by_search = plan.corpus.has_sweeps and not plan.effects.change_plans
    if plan.layout.depends_on_size and not by_search:
        found = _planned(plan, {one for some in numbers for one in some}, end, size)
    else:
        search = _Search(plan, end, size)
        found = {one: search.first(one) for some in numbers for one in some}
    times = [min((found[one] for one in some), default=end) for some in numbers]
    return [time if time < end else None for time in times]


def _planned(plan: Plan, wanted: set[int], end: int, size: int) -> dict[int, int]:
    """Return when sequences come, by planning all from the start."""
    found = dict.fromkeys(wanted, end)
    among = np.array(sorted(wanted), np.uint64)
    for planned in plan.minibatches(0, size):
        if planned.nominal_time >= end:
            break
        for one in np.intersect1d(among, planned.sequences).tolist():
            found[one] = min(found[one], planned.nominal_time)
    return found


class _Search:
    """Finds the place of a sequence in one sweep after the other."""

    def __init__(self, plan: Plan, end: int, size: int) -> None:
        self._plan, self._planner = plan, plan.make_planner()
        self._end, self._size = end, size
        effects = plan.effects
        bans = [at for at, _ in effects.bans]
        self._change = min([*bans, *(begin for begin, _ in effects.skips)], default=end)
        self._banned: dict[int, int] = {}
        for at, numbers in reversed(effects.bans):
            self._banned.update(dict.fromkeys(numbers.tolist(), at))
        # Sequences that begin before a sequence, and are left out or kept together with it.
        lengths = [length for _, length in effects.rows]
        self._reach = max([getattr(plan.layout, "row_length", 0), *lengths])

    def first(self, number: int) -> int:
        """Return when a sequence comes first, or the end."""
        found = self._end
        banned = self._banned.get(number, self._end) + self._reach
        for sweep in count():
            time = self._time(number, sweep)
            # In a part several sweeps of a corpus of a mixture may come in any order.
            if time is None or time >= self._plan.later_part(min(found, banned)):
                break
            if time < found and (time < self._change or self._comes(number, time)):
                found = time
        return found

    def _time(self, number: int, sweep: int) -> int | None:
        """Return when a sequence would come in a sweep; None if it has no such sweep."""
        try:
            return int(self._planner.find(number, sweep, self._size))
        except ValueError:  # its corpus has dropped out
            return None

    def _comes(self, number: int, time: int) -> bool:
        """Return True if a sequence due at a time is delivered, or a piece of it."""
        end = time + 1
        if getattr(self._plan.layout, "split_long", "") == "split":
            end = time + int(self._plan.corpus.core.sizes(number, 1)[0])
        begin = max(0, time - self._reach)
        for planned in self._plan.minibatches(begin, 1):
            if planned.nominal_time >= end:
                return False
            if number in planned.sequences:
                return True
        return False
