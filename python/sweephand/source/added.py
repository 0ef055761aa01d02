"""Corpora that events add to a mixture: what there was at first, and which ones they are."""

from __future__ import annotations

from dataclasses import replace

from sweephand.corpus.corpus import Corpus
from sweephand.events.event import Add, Event
from sweephand.source.described import Described, describe_chunks, describe_sizes
from sweephand.source.settings import Settings


def at_first(corpus: Corpus) -> Corpus:
    """Return a corpus without what is added to it."""
    mixing = corpus.mixing
    return corpus if mixing is None or not mixing.num_added else mixing.at_first


def with_fingerprints(settings: Settings, corpus: Corpus) -> Settings:
    """Return settings whose events tell the corpora that they add.

    Raises
    ------
    ValueError
        If a corpus is another one than an event tells, or would change how sequences that were
        there are shared.
    """
    if corpus.mixing is None:
        return settings
    if at_first(corpus).core.common_size == 1 != corpus.core.common_size:
        raise ValueError(
            "all sequences of the mixture have one sample, so that workers share them evenly; "
            "what is added must be such, too"
        )
    corpora = dict(zip(corpus.mixing.names, corpus.mixing.corpora, strict=True))
    events = [_told(event, corpora) for event in settings.events]
    return replace(settings, events=replace(settings.events, events=tuple(events)))


def _told(event: Event, corpora: dict[str, Corpus]) -> Event:
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
