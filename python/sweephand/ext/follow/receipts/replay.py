"""Replay of the steps of receipts, from the plan or from the data."""

from __future__ import annotations

import copy

from sweephand import MinibatchSource
from sweephand.ext.follow.receipts.hashes import hash_content
from sweephand.ext.follow.receipts.receipt import NO_CONTENT, Receipt
from sweephand.extend import Position, WholePlans, _core


class Replay:
    """Deriver of the minibatches of steps: by their plans alone, or with their content."""

    def __init__(self, source: MinibatchSource, streams: list[str] | None) -> None:
        # At a place of its own.
        self._source = source if streams is None else copy.copy(source)
        self._plans = WholePlans(source.timeline)
        self.streams = streams

    def at(
        self, position: Position, receipt: Receipt
    ) -> tuple[_core.compose.Plan | _core.engine.Batch, bytes]:
        """Return the plan of the minibatch that begins at a place, and the hash of its content.

        ValueError is raised for an invalid request.
        """
        samples, crosses_sweeps = receipt.asked
        if self.streams is None:
            self._plans.go_to(position)
            return self._plans.next(samples, crosses_sweeps=crosses_sweeps), NO_CONTENT
        source = self._source
        if source.position != position:
            source.position = position
        request = source.timeline.whole_request(samples, crosses_sweeps=crosses_sweeps)
        minibatch = source.cursor.next(request)
        content = hash_content(minibatch, self.streams) if minibatch else NO_CONTENT
        return minibatch.planned, content
