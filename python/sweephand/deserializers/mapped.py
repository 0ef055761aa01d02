"""Corpora of which every sequence goes through a function of the user."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.deserializer import Deserializer
from sweephand.maps.mapped import check_name, map_corpus
from sweephand.maps.measure import filtered
from sweephand.maps.opening import Opening
from sweephand.maps.sequence_map import SequenceMap


@dataclass(frozen=True, repr=False)
class MappedDeserializer(Deserializer):
    """A corpus whose sequences are mapped."""

    whole: Deserializer
    map_: SequenceMap

    def open(self, ledger: Ledger) -> Corpus:
        """Return the corpus, ready to be planned and read."""
        return self.open_for(Opening(ledger))

    def open_for(self, opening: Opening) -> Corpus:
        """Return the corpus as a source asks for it."""
        return map_corpus(self.whole.open_for(opening), self.map_, opening)

    def _told(self) -> str:
        return f"{self.whole!r}, {self.map_}"


@dataclass(frozen=True, repr=False)
class FilteredDeserializer(Deserializer):
    """A corpus of which only some sequences are kept."""

    whole: Deserializer
    filter_: SequenceMap

    def open(self, ledger: Ledger) -> Corpus:
        """Return the corpus, ready to be planned and read."""
        return self.open_for(Opening(ledger))

    def open_for(self, opening: Opening) -> Corpus:
        """Return the corpus as a source asks for it."""
        corpus = self.whole.open_for(opening)
        check_name(corpus, self.filter_.name)
        kept = filtered(corpus, self.filter_, opening)
        return replace(kept, names=[*corpus.names, self.filter_.fingerprint])

    def _told(self) -> str:
        return f"{self.whole!r}, {self.filter_}"
