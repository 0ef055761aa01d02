"""Minibatches of a plan, as a single worker would get them."""

from __future__ import annotations

from sweephand import _core
from sweephand.minibatch.share import Position
from sweephand.source.plan import Plan


class WholePlans:
    """Minibatches of a plan for all workers together, from any place on."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._planner = plan.make_planner()
        self._request = plan.whole_request(1, crosses_sweeps=True)
        self._place = _core.compose.Position(self._planner.time, [])

    @property
    def position(self) -> Position:
        """The begin of the next minibatch."""
        return Position.of(self._place)

    def go_to(self, position: Position) -> None:
        """Go to where a minibatch begins."""
        if position != self.position:
            self._place = position.to_core()
            self._planner.resume(self._place)

    def next(self, num_samples: int, *, crosses_sweeps: bool) -> _core.compose.Plan:
        """Return the next minibatch; ValueError if the request cannot be served."""
        last = self._request
        if last.num_samples != num_samples or last.crosses_sweeps is not crosses_sweeps:
            self._request = self._plan.whole_request(num_samples, crosses_sweeps=crosses_sweeps)
        plan = self._planner.next(self._request)
        self._place = plan.next
        return plan
