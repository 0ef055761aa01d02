"""Effects of the events of a source on its timeline, as each kind has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sweephand import _core
from sweephand.corpus.corpus import Corpus, ShareChange
from sweephand.events.event import Add, Ban, MapVersion, Retire, RowLength, Skip, Weights
from sweephand.events.event_list import EventList
from sweephand.layouts import Layout
from sweephand.source.effects import Effects
from sweephand.source.limits import END_OF_TIME
from sweephand.source.open_corpus import OpenCorpus
from sweephand.source.options import SourceOptions
from sweephand.source.order import common_boundary, make_order, make_planner


@dataclass(frozen=True)
class Places:
    """Places where an endless timeline may change."""

    options: SourceOptions
    opened: OpenCorpus

    def boundary(self, corpus: Corpus, lengths: Sequence[int | None], time: int) -> int:
        """Return the first time from `time` on at which a part begins in rows of any length."""
        return self._boundary_in(self._order_of(corpus), lengths, time)

    def free_key(self, corpus: Corpus, lengths: Sequence[int | None], time: int) -> int:
        """Return the key from which on other shares change nothing before that boundary."""
        order = self._order_of(corpus)
        return order.free_key(self._boundary_in(order, lengths, time))

    def _order_of(self, corpus: Corpus) -> _core.order.Timeline:
        opened = self.opened
        return make_order(corpus, self.options, opened.window, opened.scores)[0]

    def _boundary_in(
        self, order: _core.order.Timeline, lengths: Sequence[int | None], time: int
    ) -> int:
        layout = self.opened.layout
        planners = [make_planner(order, layout, END_OF_TIME, length) for length in lengths]
        return common_boundary(planners, time)


def effects_of(events: EventList, options: SourceOptions, opened: OpenCorpus) -> Effects:
    """Return the effects of events on the timeline of a corpus.

    Raises
    ------
    ValueError
        If one does not fit the corpus or the layout, naming it.
    """
    effects, layout, places = Effects(opened.corpus), opened.layout, Places(options, opened)
    for event in events.in_time:
        try:
            effects = _ADD[type(event)](effects, event, layout, places)  # type: ignore[operator] # by its type
        except (KeyError, TypeError, ValueError) as error:
            reason = error.args[0] if error.args else error
            raise ValueError(f"the event {event.name!r} at {event.at}: {reason}") from error
    skips = _joined([(one.at, one.stop) for one in events if isinstance(one, Skip)])
    return replace(effects, skips=tuple(skips))


def _ban(effects: Effects, event: Ban, _layout: Layout, _places: Places) -> Effects:
    try:
        banned = event.at, effects.corpus.ids.numbers_of(event.ids)
    except KeyError:
        for name in event.ids:
            effects.corpus.ids.number_of(name)  # whose error has the form of ids
        raise
    return replace(effects, bans=(*effects.bans, banned))


def _skip(effects: Effects, _event: Skip, _layout: Layout, _places: Places) -> Effects:
    return effects  # all of them at once, as they may overlap


def _shares(
    effects: Effects, event: Weights | Retire, layout: Layout, places: Places
) -> Effects:
    lengths = [None, *(length for _, length in effects.rows)]
    change = ShareChange(
        time=places.free_key(effects.corpus, lengths, event.at),
        weights=event.weights if isinstance(event, Weights) else None,
        retired=event.corpus if isinstance(event, Retire) else None,
    )
    return replace(effects, corpus=effects.corpus.changed(change))


def _rows(effects: Effects, event: RowLength, layout: Layout, places: Places) -> Effects:
    limit = layout.with_row_length(event.row_length).length_limit
    if limit is not None and limit.policy != "split":
        longest = _core.index.find_long(effects.corpus.core, event.row_length)
        if longest.num_sequences:
            raise ValueError(
                f"{longest.num_sequences} sequences have more than {event.row_length} samples, "
                f"the longest {longest.size}; sh.Packed(..., split_long='split') would cut them"
            )
    lengths = [None, *(length for _, length in effects.rows), event.row_length]
    begin = places.boundary(effects.corpus, lengths, event.at)
    before = tuple(row for row in effects.rows if row[0] < begin)
    return replace(effects, rows=(*before, (begin, event.row_length)))


def _map_version(
    effects: Effects, event: MapVersion, _layout: Layout, _places: Places
) -> Effects:
    return replace(effects, cuts=(*effects.cuts, event.at))  # maps see to the rest


_ADD = {
    Ban: _ban,
    Skip: _skip,
    Weights: _shares,
    Add: _shares,
    Retire: _shares,
    RowLength: _rows,
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
