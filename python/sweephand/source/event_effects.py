"""Effects of the events of a source on its timeline, as each kind has them."""

from __future__ import annotations

from dataclasses import replace

from sweephand.corpus.corpus import ShareChange
from sweephand.events.event import Ban, MapVersion, Skip, Weights
from sweephand.events.event_list import EventList
from sweephand.source.effects import Effects
from sweephand.source.limits import END_OF_TIME
from sweephand.source.open_corpus import OpenCorpus
from sweephand.source.options import SourceOptions
from sweephand.source.order import make_order, make_planner


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
