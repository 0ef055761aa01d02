"""Replay of the steps of receipts, from the plan or from the data."""

from __future__ import annotations

import copy
from typing import NamedTuple, Protocol

from sweephand import _core
from sweephand.minibatch.position import Position
from sweephand.source.source import MinibatchSource
from sweephand.source.whole_plans import WholePlans
from sweephand.train.receipts.hashes import hash_content
from sweephand.train.receipts.receipt import NO_CONTENT, Receipt


class ReplayedMinibatch(NamedTuple):
    """Minibatch that a step should have had: its plan, and its content if it was read."""

    plan: _core.compose.Plan | _core.engine.Batch
    content: bytes = NO_CONTENT


class Replay(Protocol):
    """Deriver of the minibatches of steps."""

    def at(self, position: Position, receipt: Receipt) -> ReplayedMinibatch:
        """Return the minibatch that begins at a place; ValueError for an invalid request."""


class PlanReplay:
    """Plans steps again; nothing is read."""

    def __init__(self, source: MinibatchSource) -> None:
        self._plans = WholePlans(source.timeline)

    def at(self, position: Position, receipt: Receipt) -> ReplayedMinibatch:
        """Return the minibatch that begins at a place."""
        samples, crosses_sweeps = receipt.asked
        self._plans.go_to(position)
        return ReplayedMinibatch(self._plans.next(samples, crosses_sweeps=crosses_sweeps))


class DataReplay:
    """Reads steps again, with a selection of their streams."""

    def __init__(self, source: MinibatchSource, streams: list[str]) -> None:
        self._source = copy.copy(source)  # at a place of its own
        self._streams = streams

    def at(self, position: Position, receipt: Receipt) -> ReplayedMinibatch:
        """Return the minibatch that begins at a place."""
        source, (samples, crosses_sweeps) = self._source, receipt.asked
        if source.position != position:
            source.position = position
        request = source.timeline.whole_request(samples, crosses_sweeps=crosses_sweeps)
        minibatch = source.cursor.next(request)
        if not minibatch:
            return ReplayedMinibatch(minibatch.planned)
        return ReplayedMinibatch(minibatch.planned, hash_content(minibatch, self._streams))
