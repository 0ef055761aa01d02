"""Effects of the events of a source on its timeline, as each kind has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from sweephand import _core
from sweephand.corpus.corpus import ShareChange
from sweephand.events.event import Ban, MapVersion, Skip, Weights
from sweephand.events.event_list import EventList
from sweephand.source.limits import END_OF_TIME
from sweephand.source.open_corpus import OpenCorpus
from sweephand.source.options import SourceOptions
from sweephand.source.order import make_order, make_planner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sweephand.corpus.corpus import Corpus


def effects_of(events: EventList, options: SourceOptions, opened: OpenCorpus) -> Effects:
    """Return the effects of events on the timeline of a corpus."""
    effects = Effects(opened.corpus)
    for event in events.in_time:
        try:
            effects = _ADD[type(event)](effects, event, options, opened)  # type: ignore[operator] # by its type
        except (KeyError, TypeError, ValueError) as error:
            reason = error.args[0] if error.args else error
            raise ValueError(f"the event {event.name!r} at {event.at}: {reason}") from error
    skips = _joined([(one.at, one.stop) for one in events if isinstance(one, Skip)])
    return replace(effects, skips=tuple(skips))


def _ban(effects: Effects, event: Ban, _options: SourceOptions, _opened: OpenCorpus) -> Effects:
    try:
        banned = event.at, effects.corpus.ids.numbers_of(event.ids)
    except KeyError:
        for name in event.ids:
            effects.corpus.ids.number_of(name)  # whose error has the form of ids
        raise
    return replace(effects, bans=(*effects.bans, banned))


def _skip(
    effects: Effects, _event: Skip, _options: SourceOptions, _opened: OpenCorpus
) -> Effects:
    return effects  # all of them at once, as they may overlap


def _shares(
    effects: Effects, event: Weights, options: SourceOptions, opened: OpenCorpus
) -> Effects:
    order = make_order(effects.corpus, options, opened.window, opened.scores)[0]
    boundary = make_planner(order, opened.layout, END_OF_TIME).boundary(event.at)
    change = ShareChange(order.free_key(boundary), event.weights)
    return replace(effects, corpus=effects.corpus.changed(change))


def _map_version(
    effects: Effects, event: MapVersion, _options: SourceOptions, _opened: OpenCorpus
) -> Effects:
    return replace(effects, cuts=(*effects.cuts, event.at))  # maps see to the rest


_ADD = {
    Ban: _ban,
    Skip: _skip,
    Weights: _shares,
    MapVersion: _map_version,
}


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans, ascending, with touching spans joined."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


@dataclass(frozen=True)
class Effects:
    """Effects of events on the timeline of a corpus."""

    corpus: Corpus  # with the weights of a mixture as they change
    # spans of nominal time, ascending, apart from each other
    skips: tuple[tuple[int, int], ...] = ()
    # nominal times, ascending, and which sequences are left out from there on
    bans: tuple[tuple[int, NDArray[np.uint64]], ...] = ()
    # nominal times, ascending, that no minibatch reaches over, besides where skips begin
    cuts: tuple[int, ...] = ()

    @property
    def change_plans(self) -> bool:
        """True if events change minibatches beyond the order and the layout."""
        return bool(self.skips or self.bans or self.cuts)

    @cached_property
    def core(self) -> _core.compose.Events:
        """The same for the core, but for weights."""
        bans = _core.compose.Bans(sum(len(numbers) for _, numbers in self.bans))
        for at, numbers in self.bans:
            bans.add(at, numbers)
        skips = [_core.compose.Skip(begin, end) for begin, end in self.skips]
        return _core.compose.Events(skips, list(self.cuts), bans)
