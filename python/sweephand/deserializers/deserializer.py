"""The interface of deserializers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger


class Deserializer(ABC):
    """Turns a file format, or arrays, into chunks of sequences."""

    @abstractmethod
    def open(self, ledger: Ledger) -> Corpus:
        """Return the corpus, ready to be planned and read.

        Parameters
        ----------
        ledger : Ledger
            Where damaged items are counted that are passed over, now and when chunks are
            loaded. A sequence among them keeps its place on the timeline: it has the size that
            is known of it, else one sample, and the core skips it.

        Raises
        ------
        DataError
            If the bytes are wrong.
        ValueError
            If the streams cannot be served as they are defined.
        """
