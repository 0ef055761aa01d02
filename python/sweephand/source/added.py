"""Corpora that events add to a mixture: the mixture before them, and their names."""

from __future__ import annotations

from dataclasses import replace

from sweephand.corpus.corpus import Corpus
from sweephand.events.event import Add, Event
from sweephand.events.event_list import EventList
from sweephand.source.described import Described, describe_chunks, describe_sizes


def at_first(corpus: Corpus) -> Corpus:
    """Return a corpus without the corpora that events added."""
    mixing = corpus.mixing
    return corpus if mixing is None or not mixing.num_added else mixing.at_first


def with_fingerprints(events: EventList, corpus: Corpus) -> EventList:
    """Return the events, each that adds a corpus with the fingerprint of that.

    Raises
    ------
    ValueError
        If a corpus is another one than an event tells, or would change how sequences that were
        there are shared.
    """
    if corpus.mixing is None:
        return events
    if at_first(corpus).core.common_size == 1 != corpus.core.common_size:
        raise ValueError(
            "all sequences of the mixture have one sample, so that workers share them evenly; "
            "what is added must be such, too"
        )
    corpora = dict(zip(corpus.mixing.names, corpus.mixing.corpora, strict=True))
    return replace(events, events=tuple(_with_fingerprint(one, corpora) for one in events))


def _with_fingerprint(event: Event, corpora: dict[str, Corpus]) -> Event:
    if not isinstance(event, Add):
        return event
    found = _fingerprint(corpora[event.corpus])
    if event.fingerprint not in ("", found):
        raise ValueError(
            f"the corpus {event.corpus!r} that is added is {found!r}, and was "
            f"{event.fingerprint!r} when the event was made"
        )
    return replace(event, fingerprint=found)


def _fingerprint(corpus: Corpus) -> str:
    sizes = describe_sizes(corpus.core) if corpus.sizing.fingerprinted else ""
    return str(Described.of([*corpus.names, sizes, str(describe_chunks(corpus.core))]))
