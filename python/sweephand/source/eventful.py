"""A source whose timeline changes by events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from sweephand import _core
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger
from sweephand.events.event import Add, Event, MapVersion
from sweephand.events.event_file import EventFile, changing
from sweephand.events.event_list import EventList
from sweephand.events.take_up import take_up
from sweephand.minibatch.contents import Contents, Keys
from sweephand.minibatch.label_count import kind_without_stream
from sweephand.source.delivery import make_engine
from sweephand.source.events import Events
from sweephand.source.loops import Loops
from sweephand.source.origin import Order, Origin
from sweephand.source.scores import ScoredOrder
from sweephand.source.settings import Settings
from sweephand.source.timeline import Timeline
from sweephand.source.window import Window


class EventfulSource(Loops):
    """Lays a corpus on a timeline, and lays it anew when something happens there."""

    _ledger: Ledger
    _order: Order
    _scores: ScoredOrder | None
    _through_cache: Corpus | None  # which a node's cache reads
    _window: Window
    _without_events: Corpus

    def _timeline_of(self, settings: Settings) -> Timeline:
        corpus = self._without_events
        return Timeline(corpus, self._layout, settings, self._window, self._scores)

    def _set(self, timeline: Timeline) -> None:
        self._timeline, self._corpus = timeline, timeline.corpus
        self._origin = Origin(self._order, timeline, self._settings)
        self._unlabelled = kind_without_stream(self._corpus.streams, self._corpus.core)
        self._contents = self._contents_of(self._keys)

    def _making(self) -> Callable[[], _core.engine.Engine]:
        # Not a method: a source is gone as soon as nobody has it, with all its memory.
        served = self._through_cache or self._corpus
        return partial(
            make_engine, served, self._layout, self._timeline, self._settings, self._ledger
        )

    @property
    def events(self) -> Events:
        """What happens on the timeline, and what adds to it."""
        return Events(lambda: self._settings.events, self._happen, lambda: self._delivery.time)

    def _happen(self, event: Event) -> None:
        if event.at < self._delivery.time:
            raise ValueError(
                f"the source stands at {self._delivery.time}, and {event.name!r} would "
                f"change what comes from {event.at} on: go back first, or give it to a new "
                "source, MinibatchSource(..., events=[...])"
            )
        before = self._settings.events
        if self._settings.events_file is None:
            self._take(before.with_one(event))
            return
        with changing(self._settings.events_file) as file:
            self._take_up(file, event)

    def _take_up(self, file: EventFile, event: Event) -> None:
        """Add an event to a file, and let it happen with what others have added there."""
        before = self._settings.events
        there = file.read() if file.path.exists() else list(before)
        try:
            events = take_up(before, there, event, self._delivery.time)
        except ValueError as error:
            raise ValueError(f"{file.path}: {error}") from error
        self._take(events)
        try:
            if len(events) > len(there) or not file.path.exists():
                file.write(self._settings.events)
        except BaseException:
            self._take(before)  # what is not written down has not happened
            raise

    @contextmanager
    def _trying(self, event: Event) -> Iterator[None]:
        """Let an event happen inside, of which nothing is left afterwards."""
        before = self._settings.events
        self._take(before.with_one(event))
        try:
            yield
        finally:
            self._take(before)

    def _take(self, events: EventList) -> None:
        """Go on from the same place with other events."""
        before = self._settings, self._timeline
        settings = replace(self._settings, events=events)
        if _opened_with(events) != _opened_with(before[0].events):
            self._reopen(settings)
            return
        self._settings = settings
        try:
            self._set(self._timeline_of(settings))
            self._delivery.remake(self._making())
        except BaseException:
            self._settings = before[0]
            self._set(before[1])
            raise

    def _reopen(self, settings: Settings) -> None:
        """Open all anew with other settings, and go on from the same place."""
        raise NotImplementedError

    def _contents_of(self, keys: Keys) -> Contents:
        ids, origin = self._corpus.ids, self._origin
        return Contents(keys, self._layout, ids, origin, self._unlabelled)


def _opened_with(events: EventList) -> list[bytes]:
    """Return the digests of events for which the corpus is opened anew."""
    return [event.digest for event in events if isinstance(event, Add | MapVersion)]
