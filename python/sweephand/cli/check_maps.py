"""Checks of maps: results depend on the sequence and its key alone, and keep no input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.deserializer import Deserializer, MappedDeserializer
from sweephand.maps import OpenContext, kept_inputs
from sweephand.minibatch.content_digest import digests_by_id
from sweephand.mixtures.mixture import Mixture
from sweephand.source.source import MinibatchSource

_WORKERS = 4
_MOST_MINIBATCHES = 32
_MOST_LOOKED_AT = 64  # sequences

MakeSource = Callable[[Deserializer, int], MinibatchSource]
"""Returns a source of a corpus whose maps run on so many workers."""


def maps_of(corpus: Deserializer) -> list[MappedDeserializer]:
    """Return the mapped corpora that a corpus is made of, in the order of their maps."""
    if isinstance(corpus, Mixture):
        return [mapped for one in corpus.deserializers for mapped in maps_of(one)]
    found: list[MappedDeserializer] = []
    one: object = corpus
    while isinstance(one, Deserializer):
        if isinstance(one, MappedDeserializer):
            found.insert(0, one)
        one = getattr(one, "whole", None)
    return found


def compare(
    mapped: MappedDeserializer, make_source: MakeSource, size: int
) -> Iterator[tuple[str, bool]]:
    """Map minibatches twice, on other workers and in minibatches of another size."""
    once = _digests(mapped, make_source, 0, size)
    again = _digests(mapped, make_source, _WORKERS, 2 * size)
    for name in once.keys() & again.keys():
        yield name, once[name] == again[name]


def kept(mapped: MappedDeserializer) -> Iterator[tuple[str, bool]]:
    """Map sequences and look for inputs that the map keeps: see `kept_inputs`."""
    opening = OpenContext(Ledger(2**31))  # damage is reported elsewhere
    return kept_inputs(mapped.whole.open_for(opening), mapped.map_, opening, _MOST_LOOKED_AT)


def _digests(
    mapped: MappedDeserializer, make_source: MakeSource, workers: int, size: int
) -> dict[str, str]:
    found: dict[str, str] = {}
    with make_source(mapped, workers) as source:
        for minibatch in islice(source.minibatches(size), _MOST_MINIBATCHES):
            found |= digests_by_id(minibatch)
    return found
