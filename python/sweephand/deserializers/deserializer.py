"""The interface of deserializers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.streams import StreamInfo
from sweephand.printable import printable


class Deserializer(ABC):
    """Turns a file format, or arrays, into chunks of sequences.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"x": np.arange(4)})  # each format has one
    >>> isinstance(corpus, sh.Deserializer)
    True
    >>> sh.MinibatchSource(corpus, randomize=False).next_minibatch(4)["x"].values
    array([0, 1, 2, 3])
    """

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._told()})"

    def _told(self) -> str:
        """Return in a few words what it serves; nothing is read for it."""
        return ""


def brief(
    names: Iterable[str], streams: Iterable[StreamInfo | str], num_sequences: int | None = None
) -> str:
    """Return names of files or data, and the streams, in a few words.

    Examples
    --------
    >>> brief(["a.ctf", "b.ctf", "c.ctf"], ["words", "labels"])
    'a.ctf and 2 more; words, labels'
    """
    first, *rest = names
    more = f" and {len(rest)} more" if rest else ""
    count = "" if num_sequences is None else f", {num_sequences} sequences"
    told = ", ".join(one if isinstance(one, str) else one.brief for one in streams)
    return f"{printable(first)}{more}{count}; {told}"
