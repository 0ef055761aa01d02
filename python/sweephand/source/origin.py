"""Where minibatches come from: their order, as it is told and planned without their source."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from sweephand import _core
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ids import SequenceIds
from sweephand.layouts import Layout
from sweephand.source.balance import Balance, cost_of
from sweephand.source.scores import ScoredOrder
from sweephand.source.settings import Settings
from sweephand.source.state import State
from sweephand.source.timeline import Timeline
from sweephand.source.window import DefaultWindow, Window


@dataclass(frozen=True, eq=False)
class Order:
    """What decides which sequence comes when, but for events."""

    corpus: Corpus
    layout: Layout
    settings: Settings
    window: Window
    scores: ScoredOrder | None

    @cached_property
    def state(self) -> State:
        """That of the start; it takes a look at all lengths, so it waits until it is wanted."""
        return State.at_start(self.corpus, self.layout, self.settings, self.window, self.scores)

    @cached_property
    def told(self) -> dict[str, Any]:
        """All of it as a state tells it, and the fingerprint of all ids."""
        told = self.state.to_dict()
        for name in ("position", "progress", "version"):
            del told[name]
        told["ids"] = self.corpus.ids.fingerprint(self.corpus.num_sequences)
        return told

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options of the source that decide what it delivers, but for its corpus.

        They are JSON, as `MinibatchSource` takes them; layout and balance by their fields.
        """
        settings = self.settings
        chunks = settings.randomization_window_in_chunks
        return {
            "max_samples": settings.max_samples,
            "max_sweeps": settings.max_sweeps,
            "randomize": settings.randomize,
            "randomization_seed": settings.randomization_seed,
            "randomization_window_in_samples": settings.randomization_window_in_samples,
            "num_lanes": settings.num_lanes,
            "missing": settings.missing,
            "max_errors": settings.max_errors,
            "layout": _by_fields(settings.chosen_layout),
            "balance": _by_fields(settings.balance),
        } | ({} if isinstance(chunks, DefaultWindow) else {_IN_CHUNKS: chunks})


@dataclass(frozen=True, eq=False)
class Origin:
    """The timeline that minibatches are of. A source, and its minibatches, hold it."""

    order: Order
    timeline: Timeline
    settings: Settings

    @property
    def ids(self) -> SequenceIds:
        """The ids of all sequences."""
        return self.timeline.corpus.ids

    def sweeps_ended_by(self, start: int, stop: int) -> dict[str, int]:
        """Return how many sweeps of every corpus of a mixture end in ``[start, stop)``."""
        return self.timeline.sweeps_ended_by(start, stop)

    def whole_plans(self) -> WholePlans:
        """Return what plans minibatches for all workers, standing at the start."""
        return WholePlans(self)


_IN_CHUNKS = "randomization_window_in_chunks"


class WholePlans:
    """Plans minibatches as one worker would get them who has all.

    Attributes
    ----------
    position : Position
        Where the next one begins.
    """

    def __init__(self, origin: Origin) -> None:
        self._planner = origin.timeline.make_planner()
        self._balance = origin.settings.balance
        self._request = whole_request(1, self._balance, crosses_sweeps=True)
        self.position = _core.compose.Position(self._planner.time, [])

    def go_to(self, position: _core.compose.Position) -> None:
        """Go to where a minibatch begins, unless it is here."""
        here = self.position
        if position.time != here.time or position.progress != here.progress:
            self._planner.resume(position)
            self.position = position

    def next(self, num_samples: int, *, crosses_sweeps: bool) -> _core.compose.Plan:
        """Return the next one, by its request; ValueError if it cannot be served."""
        last = self._request
        if last.num_samples != num_samples or last.crosses_sweeps is not crosses_sweeps:
            self._request = whole_request(
                num_samples, self._balance, crosses_sweeps=crosses_sweeps
            )
        plan = self._planner.next(self._request)
        self.position = plan.next
        return plan


def whole_request(
    num_samples: int, balance: Balance, *, crosses_sweeps: bool
) -> _core.compose.Request:
    """Return a request for all of a minibatch."""
    return _core.compose.Request(
        num_samples, 1, 0, 0, crosses_sweeps=crosses_sweeps, balance=cost_of(balance)
    )


def _by_fields(value: object) -> object:
    """Return a dataclass as its name and fields."""
    if value is None or isinstance(value, str):
        return value
    told = {field.name: getattr(value, field.name) for field in fields(value)}  # type: ignore[arg-type]
    return {"kind": type(value).__name__, **told}
