"""Several corpora on one timeline, by weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from typing import Any, Literal, get_args

from sweephand import _core
from sweephand.corpus.corpus import Corpus, ShareChange
from sweephand.corpus.join import join
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.source_data import SourceData, deserializers_of, single_corpus
from sweephand.errors import shown
from sweephand.maps import By, OpenContext
from sweephand.mixtures.by_class import corpora_of, weights_of
from sweephand.mixtures.mixed_corpus import MixedCorpus
from sweephand.mixtures.weights import (
    Weights,
    changed,
    drop_later,
    drop_out,
    legs_of,
    rates_of,
    share_at,
)

AtEnd = Literal["repeat", "stop", "drop"]

_MOST_CORPORA = 2**16 - 1


_Change = Callable[[Deserializer], Deserializer]
"""A map or a filter of all corpora."""


class Mixture(Deserializer):
    """Several corpora on one timeline, each read at the rate of its weight.

    Weights are shares of *samples*, of tokens for instance, however long sequences are. Each
    corpus goes through sweeps of its own without repetition, in an order that depends on its
    name and the seed alone, and its position follows from the nominal time: a mixture seeks,
    resumes, finds and is shared as a single corpus is, in any layout. An id is
    ``<corpus>/<id>``.

    Parameters
    ----------
    corpora : dict
        By name, the data of each corpus as a source takes them: a deserializer, a list of
        deserializers to join, or data. All have the same streams; names hold no ``/``.
    weights : dict of float, or list of (int, dict)
        Weight of every corpus; or the weights at nominal times in samples: linear in between,
        and constant before the first and after the last. Integers and fractions are exact, and
        a float counts as its decimal text.
    at_end : {"repeat", "stop", "drop"}
        At the end of a corpus it begins again; or the data end; or it drops out, and the other
        corpora continue with scaled weights until all have ended.

    Raises
    ------
    ValueError
        If a weight is negative, not finite or missing, or all are 0; when it is opened, if
        streams differ.
    TypeError
        If an argument is of a wrong type.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> web = sh.ArrayDeserializer({"x": np.arange(0, 900)})
    >>> code = sh.ArrayDeserializer({"x": np.arange(900, 1000)})
    >>> mixture = sh.Mixture({"web": web, "code": code}, weights={"web": 3, "code": 1})
    >>> minibatch = sh.MinibatchSource(mixture).next_minibatch(400)
    >>> minibatch.num_samples_by()
    {'web': 300, 'code': 100}
    """

    def __init__(
        self,
        corpora: Mapping[str, SourceData],
        weights: Weights,
        *,
        at_end: AtEnd = "repeat",
    ) -> None:
        self._corpora = _checked(corpora)
        self._weights = weights
        self._legs = legs_of(weights, list(self._corpora))
        if at_end not in get_args(AtEnd):
            raise ValueError(f"at_end is 'repeat', 'stop' or 'drop', got {shown(at_end)}")
        self._at_end: AtEnd = at_end

    @classmethod
    def by(
        cls,
        corpus: SourceData,
        by: By,
        weights: Weights | Literal["equal"] = "equal",
        *,
        at_end: AtEnd = "repeat",
    ) -> Mixture:
        """Return a mixture of the classes of a corpus, such as those of its labels.

        Classes come by their weights however many sequences they have: those of few sequences
        go round sooner. They are found when the mixture is made, in one pass that is kept
        beside the index of files if a stream says them.

        Parameters
        ----------
        corpus : Deserializer, dict of arrays, or table
        by : str or callable
            A stream with one sample a sequence, of integers, bools or text; or a function of a
            sequence, a dict of arrays, that returns one.
        weights : "equal", dict of float, or list of (int, dict)
            Weight of every class; or the weights at nominal times. Classes are named by text,
            and integers are taken for it.
        at_end : {"repeat", "stop", "drop"}
            When a class has ended.

        Raises
        ------
        ValueError
            If the stream is no class, or a weight is wrong or missing.
        TypeError
            If an argument is of a wrong type.

        Examples
        --------
        >>> import numpy as np, sweephand as sh
        >>> rare = {"x": np.arange(1000), "label": (np.arange(1000) >= 990).astype(int)}
        >>> source = sh.MinibatchSource(sh.Mixture.by(rare, "label", weights="equal"))
        >>> source.next_minibatch(100).num_samples_by()
        {'0': 50, '1': 50}
        """
        if not isinstance(by, str) and not callable(by):
            raise TypeError(
                f"by is the name of a stream, or a function of a sequence, got {shown(by)}"
            )
        corpora = corpora_of(single_corpus(corpus, "Mixture.by"), by)
        return cls(corpora, weights_of(weights, list(corpora)), at_end=at_end)

    @property
    def names(self) -> list[str]:
        """Names of the corpora."""
        return list(self._corpora)

    @property
    def deserializers(self) -> list[Deserializer]:
        """The deserializers of all corpora, in their order."""
        return [one for joined in self._corpora.values() for one in joined]

    @property
    def at_end(self) -> AtEnd:
        """Policy for a corpus that has ended."""
        return self._at_end

    def weights_at(self, time: int) -> dict[str, float]:
        """Return the share of every corpus at a nominal time; they sum to 1.

        Where a corpus drops out, those of the time before.
        """
        return dict(zip(self._corpora, share_at(self._legs, time), strict=True))

    def once(self) -> Mixture:
        """Return the mixture in which every sequence comes once: ``at_end="drop"``."""
        return Mixture(self._corpora, self._weights, at_end="drop")

    def open(self, ledger: Ledger) -> Corpus:
        """Return the corpus, ready to be planned and read."""
        return self.open_for(OpenContext(ledger))

    def open_for(self, opening: OpenContext) -> Corpus:
        """Return the corpus as a source asks for it."""
        opened = {}
        for name, joined in self._corpora.items():
            try:
                corpora = [one.open_for(opening) for one in joined]
                opened[name] = join(corpora, opening.missing).to_join()
            except Exception as error:
                error.add_note(f"the corpus {name!r} of a mixture")
                raise
        return MixedCorpus(
            corpora=opened,
            rates_of=self._rates,
            fingerprint=self._fingerprint,
            at_end=self._at_end,
            ledger=opening.ledger,
        )

    def map(self, function: Callable[..., Any], **options: Any) -> Mixture:
        """Return the mixture with every corpus mapped; see `Deserializer.map`."""
        return self._changed(methodcaller("map", function, **options))

    def filter(self, predicate: Callable[..., Any], **options: Any) -> Mixture:
        """Return the mixture with every corpus filtered; see `Deserializer.filter`."""
        return self._changed(methodcaller("filter", predicate, **options))

    def _changed(self, change: _Change) -> Mixture:
        return Mixture(_each(self._corpora, change), self._weights, at_end=self._at_end)

    def _rates(
        self, samples: Sequence[int], changes: Sequence[ShareChange]
    ) -> list[_core.order.Rate]:
        legs = self._legs
        dropped = drop_out(legs, samples)
        for change in changes:
            legs = changed(legs, list(self._corpora), change)
            dropped = drop_later(dropped, legs, change.time, samples)
        return rates_of(dropped.legs if self._at_end == "drop" else legs)

    @property
    def _fingerprint(self) -> str:
        legs = " ".join(f"{leg.begin}:{leg.first}:{leg.last}" for leg in self._legs)
        return f"mixture {' '.join(self._corpora)} {self._at_end} {legs}"

    def _description(self) -> str:
        shares = ", ".join(f"{name} {at:.3g}" for name, at in self.weights_at(0).items())
        return f"{shares}; at_end={self._at_end!r}"


def _each(
    corpora: Mapping[str, list[Deserializer]], change: _Change
) -> dict[str, list[Deserializer]]:
    for name, joined in corpora.items():
        if len(joined) > 1:
            raise ValueError(
                f"the corpus {name!r} joins {len(joined)} deserializers: map those before they "
                "are mixed"
            )
    return {name: [change(one)] for name, (one,) in corpora.items()}


def _checked(corpora: object) -> dict[str, list[Deserializer]]:
    if not isinstance(corpora, Mapping):
        raise TypeError(
            "a mixture takes a dict: sh.Mixture({'web': a, 'code': b}, weights={'web': 7, "
            f"'code': 3}}); got {shown(corpora)}"
        )
    if not 1 <= len(corpora) <= _MOST_CORPORA:
        raise ValueError(f"a mixture has 1 to 65,535 corpora, got {len(corpora)}")
    found = {}
    for name, corpus in corpora.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(f"a corpus is named by text without '/', got {shown(name)}")
        found[name] = deserializers_of(corpus)
        if any(isinstance(one, Mixture) for one in found[name]):
            raise ValueError(f"{name!r} is a mixture itself; give all corpora in one mixture")
    return found
