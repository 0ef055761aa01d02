"""The interface of deserializers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.streams import StreamInfo, StreamsLike
from sweephand.errors import printable

if TYPE_CHECKING:
    from sweephand.maps import Lengths, OpenContext, SequenceMap, SizeOf


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
            Where damaged items are counted that are passed over. A sequence among them keeps
            its place on the timeline, with its size if that is known, else with one sample.
        """

    def open_for(self, opening: OpenContext) -> Corpus:
        """Return the corpus with the source's seed for maps, and ``decode=`` carried out."""
        corpus = self.open(opening.ledger)
        if all(info.definition.decode is None for info in corpus.streams):
            return corpus
        from sweephand.deserializers.decoded import decode_streams

        return decode_streams(corpus, opening)

    def map(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        version: int | None = None,
        random: bool = False,
        batched: bool = False,
        streams: StreamsLike | None = None,
        size: Literal["same", "measured"] | SizeOf | Lengths = "same",
        cache: bool = False,
        versions: Mapping[int, Callable[..., Any]] | None = None,
    ) -> Deserializer:
        """Return the corpus with every sequence mapped when it is delivered.

        The result depends on nothing but the sequence and its `Key`.

        Parameters
        ----------
        function : callable
            ``function(sequence)`` takes a dict of arrays (samples, *sample shape), CSR matrices
            of sparse streams, and returns such a dict. Streams that do not come back are gone.
            A value of a declared shape may be one sample without the first axis.
        name : str, optional
            By default the function's. Keys and states depend on it, so that two maps of a
            corpus have two names.
        version : int, optional
            Stands for the function's digest in states and kept results: another version is
            another function. Without one it is 1 for keys.
        random : bool
            ``function(sequence, key)`` also takes a `Key` to draw from.
        batched : bool
            The function takes a dict of lists, and a list of keys, and returns a dict of lists.
            A result must not depend on the other sequences of its batch.
        streams : StreamDefs, dict of StreamDef or list of str, optional
            The streams of the result; by default those returned for the first sequence.
        size : {"same", "measured"}, callable or Lengths
            Of a sequence in samples: "same" as before; a function of a dict of the sizes of
            the streams that are known without reading, and of the key of all sweeps; or
            "measured" by mapping every sequence once, kept beside the index: empty results are
            left out, and a list of dicts is several sequences, ``<id>#0``, ``<id>#1``, ...
            A `Lengths`, called instead of the function, finds it in the stored data.
        cache : bool
            Keep what the map makes, with checksums, beside the index of files that are read
            chunk by chunk; not of maps that draw.
        versions : dict of int to callable, optional
            Other versions, of the same streams and sizes, for ``source.events.map_version``.

        Examples
        --------
        >>> import numpy as np, sweephand as sh
        >>> def crop(sequence, key):
        ...     begin = key.integer(len(sequence["x"]) - 1)
        ...     return {"x": sequence["x"][begin:begin + 2]}
        >>> corpus = sh.ArrayDeserializer({"x": [np.arange(5), np.arange(9)]})
        >>> pairs = corpus.map(crop, random=True, size=lambda sizes, key: 2)
        >>> sh.MinibatchSource(pairs, max_sweeps=1).next_minibatch(4)["x"].shape
        (2, 2)
        """
        from sweephand.maps import make_map

        wanted = make_map(
            function,
            name,
            version,
            random=random,
            batched=batched,
            streams=streams,
            size=size,
            cache=cache,
            versions=versions,
        )
        return MappedDeserializer(self, wanted)

    def filter(
        self,
        predicate: Callable[..., Any],
        *,
        name: str | None = None,
        version: int | None = None,
    ) -> Deserializer:
        """Return the corpus with only those sequences of which a function is true.

        It is called once for every sequence, and its answers are kept beside the index:
        rejected sequences are left out before anything is planned. Ids do not change.

        Parameters
        ----------
        predicate : callable
            ``predicate(sequence)`` takes a sequence as functions of `map` do, and returns True
            or False.
        name, version : optional
            As in `map`.

        Examples
        --------
        >>> import numpy as np, sweephand as sh
        >>> corpus = sh.ArrayDeserializer({"x": [np.arange(n) for n in (2, 3, 1, 4)]})
        >>> long = corpus.filter(lambda sequence: len(sequence["x"]) > 2, name="long")
        >>> sh.MinibatchSource(long).num_sequences_per_sweep
        2
        """
        from sweephand.maps import make_filter

        return MappedDeserializer(self, make_filter(predicate, name, version), is_filter=True)

    def of_stream(self, name: str) -> Deserializer:
        """Return the same sequences for a look at one stream, where that reads less."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._description()})"

    def _description(self) -> str:
        """Return a brief description of the data; nothing is read for it."""
        return ""


class DerivedDeserializer(Deserializer):
    """A corpus made of other corpora, which are opened when a source asks for them."""

    def open(self, ledger: Ledger) -> Corpus:
        """Return the corpus, ready to be planned and read."""
        from sweephand.maps import OpenContext

        return self.open_for(OpenContext(ledger))

    @abstractmethod
    def open_for(self, opening: OpenContext) -> Corpus:
        """Return the corpus as a source asks for it."""


@dataclass(frozen=True, repr=False)
class MappedDeserializer(DerivedDeserializer):
    """A corpus whose sequences are mapped, or those that are kept by a filter."""

    whole: Deserializer
    map_: SequenceMap
    is_filter: bool = False

    def open_for(self, opening: OpenContext) -> Corpus:
        """Return the corpus as a source asks for it."""
        from sweephand.maps import check_name, filtered, map_corpus

        corpus = self.whole.open_for(opening)
        if not self.is_filter:
            return map_corpus(corpus, self.map_, opening)
        check_name(corpus, self.map_.name)
        return filtered(corpus, self.map_, opening).named(self.map_.fingerprint)

    def _description(self) -> str:
        return f"{self.whole!r}, {self.map_}"


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
    names_of_streams = ", ".join(one if isinstance(one, str) else one.brief for one in streams)
    return f"{printable(first)}{more}{count}; {names_of_streams}"
