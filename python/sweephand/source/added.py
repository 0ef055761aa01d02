"""Fingerprints of the corpora that events add to a mixture."""

from __future__ import annotations

from dataclasses import replace

from sweephand.corpus.corpus import Corpus
from sweephand.events.event import Add, Event
from sweephand.events.event_list import EventList
from sweephand.source.described import Described, describe_chunks, describe_sizes


def with_fingerprints(events: EventList, corpus: Corpus) -> EventList:
    """Return the events, each that adds a corpus with the fingerprint of that.

    Raises
    ------
    ValueError
        If a corpus is another one than an event tells, or would change how sequences that were
        there are shared.
    """
    if corpus.at_first.core.common_size == 1 != corpus.core.common_size:
        raise ValueError(
            "all sequences of the mixture have one sample, so that workers share them evenly; "
            "what is added must be such, too"
        )
    return replace(events, events=tuple(_with_fingerprint(one, corpus) for one in events))


def _with_fingerprint(event: Event, corpus: Corpus) -> Event:
    if not isinstance(event, Add):
        return event
    found = _fingerprint(corpus.parts[event.corpus])
    if event.fingerprint not in ("", found):
        raise ValueError(
            f"the corpus {event.corpus!r} that is added is {found!r}, and was "
            f"{event.fingerprint!r} when the event was made"
        )
    return replace(event, fingerprint=found)


def _fingerprint(corpus: Corpus) -> str:
    sizes = describe_sizes(corpus.core) if corpus.sizing.fingerprinted else ""
    return str(Described.of([*corpus.names, sizes, str(describe_chunks(corpus.core))]))
