"""Several corpora on one timeline, by weights."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from numbers import Rational, Real
from operator import methodcaller
from typing import Any, Literal, get_args

import numpy as np

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.corpus import Corpus, ShareChange
from sweephand.corpus.derived import join
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.array import SourceData, deserializers_of, single_corpus
from sweephand.deserializers.deserializer import DerivedDeserializer, Deserializer
from sweephand.errors import StaleError, shown
from sweephand.maps import OpenContext, SequenceClasses, classes_of
from sweephand.mixtures.mixed_corpus import MixedCorpus

AtEnd = Literal["repeat", "stop", "drop"]

_MOST_CORPORA = 2**16 - 1


class Mixture(DerivedDeserializer):
    """Several corpora on one timeline, each read at the rate of its weight.

    Weights are shares of *samples*, of tokens for instance, however long sequences are. Each
    corpus goes through sweeps of its own without repetition, in an order that depends on its
    name and the seed alone, and its position follows from the nominal time: a mixture seeks,
    resumes, finds and is shared as a single corpus is, in any layout. An id is
    ``<corpus>/<id>``.

    Parameters
    ----------
    corpora : dict
        By name, without ``/``, the data of each corpus as a source takes them: a deserializer,
        a list of deserializers to join, or data. All have the same streams.
    weights : dict of float, or list of (int, dict)
        Weight of every corpus, not all 0; or the weights at nominal times in samples: linear in
        between, and constant before the first and after the last. Integers and fractions are
        exact, and a float counts as its decimal text.
    at_end : {"repeat", "stop", "drop"}
        At the end of a corpus it begins again; or the data end; or it drops out, and the other
        corpora continue with scaled weights until all have ended.

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
        by: str,
        weights: Weights | Literal["equal"] = "equal",
        *,
        at_end: AtEnd = "repeat",
    ) -> Mixture:
        """Return a mixture of the classes of a corpus, such as those of its labels.

        Classes come by their weights however many sequences they have: those of few sequences
        go round sooner. They are found when the mixture is made, in one pass that is kept
        beside the index of files.

        Parameters
        ----------
        corpus : Deserializer, dict of arrays, or table
        by : str
            A stream with one sample a sequence, of integers, bools or text.
        weights : "equal", dict of float, or list of (int, dict)
            As of a mixture. Classes are named by text, and integers are taken for it.
        at_end : {"repeat", "stop", "drop"}
            When a class has ended.

        Examples
        --------
        >>> import numpy as np, sweephand as sh
        >>> rare = {"x": np.arange(1000), "label": (np.arange(1000) >= 990).astype(int)}
        >>> source = sh.MinibatchSource(sh.Mixture.by(rare, "label", weights="equal"))
        >>> source.next_minibatch(100).num_samples_by()
        {'0': 50, '1': 50}
        """
        if not isinstance(by, str):
            raise TypeError(f"by is the name of a stream, got {shown(by)}")
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
        leg = next(leg for leg in reversed(self._legs) if leg.begin <= time)
        shares = (float(share) / WHOLE for share in _shares(leg, time))
        return dict(zip(self._corpora, shares, strict=True))

    def once(self) -> Mixture:
        """Return the mixture in which every sequence comes once: ``at_end="drop"``."""
        return Mixture(self._corpora, self._weights, at_end="drop")

    def open_for(self, opening: OpenContext) -> Corpus:
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

    def _changed(self, change: Callable[[Deserializer], Deserializer]) -> Mixture:
        for name, joined in self._corpora.items():
            if len(joined) > 1:
                raise ValueError(f"the corpus {name!r} is joined: map its parts before")
        corpora = {name: change(one) for name, (one,) in self._corpora.items()}
        return Mixture(corpora, self._weights, at_end=self._at_end)

    def _rates(
        self, samples: Sequence[int], changes: Sequence[ShareChange]
    ) -> list[_core.order.Rate]:
        legs = self._legs
        dropped, times = drop_out(legs, samples)
        for change in changes:
            names, at = list(self._corpora), change.time
            legs = _joined(legs, legs_of(change.weights, names), set(range(len(names))), at)
            # Those that have dropped out stay out.
            times = {number: one for number, one in times.items() if one <= at}
            left = set(range(len(samples))) - times.keys()
            dropped, times = drop_out(_joined(dropped, legs, left, at), samples, times)
        return rates_of(dropped if self._at_end == "drop" else legs)

    @property
    def _fingerprint(self) -> str:
        legs = " ".join(f"{leg.begin}:{leg.first}:{leg.last}" for leg in self._legs)
        return f"mixture {' '.join(self._corpora)} {self._at_end} {legs}"

    def _description(self) -> str:
        shares = ", ".join(f"{name} {at:.3g}" for name, at in self.weights_at(0).items())
        return f"{shares}; at_end={self._at_end!r}"


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


class ClassifiedCorpus:
    """A corpus with the classes of its sequences, opened once for all of them."""

    def __init__(self, whole: Deserializer, by: str) -> None:
        self.whole = whole
        self.by = by
        self._opened: tuple[weakref.ref[OpenContext], Corpus, SequenceClasses] | None = None
        self.names = self.open_for(OpenContext(Ledger()))[1].names

    def open_for(self, opening: OpenContext) -> tuple[Corpus, SequenceClasses]:
        """Return the corpus and its classes; the same for the same opening."""
        if self._opened is not None and self._opened[0]() is opening:
            return self._opened[1:]
        corpus = self.whole.open_for(opening)
        if list(corpus.parts) != [""]:
            raise ValueError("a mixture is no corpus of classes: give the corpus itself")
        narrow = self.whole.of_stream(self.by)
        looked_at = corpus if narrow is self.whole else narrow.open_for(opening)
        classes = classes_of(looked_at, self.by, opening)
        self._opened = weakref.ref(opening, self._forget), corpus, classes
        return corpus, classes

    def _forget(self, _: object) -> None:
        self._opened = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def __str__(self) -> str:
        return self.by


@dataclass(frozen=True, repr=False)
class ClassOfCorpus(DerivedDeserializer):
    """The sequences of one class."""

    of: ClassifiedCorpus
    name: str

    def open_for(self, opening: OpenContext) -> Corpus:
        corpus, classes = self.of.open_for(opening)
        if classes.names != self.of.names:
            changed = sorted({*classes.names} ^ {*self.of.names})
            raise StaleError(
                f"the classes by {self.of} are others than when the mixture was made: "
                f"{', '.join(changed)[:200]}"
            )
        kept = corpus.keep(classes.of(self.name))
        return kept.named(f"class {self.name} by {self.of}")

    def _description(self) -> str:
        return f"{self.name} by {self.of}, {self.of.whole!r}"


def corpora_of(whole: Deserializer, by: str) -> dict[str, ClassOfCorpus]:
    """Return a corpus for every class, by its name."""
    classified = ClassifiedCorpus(whole, by)
    for name in classified.names:
        if not name or "/" in name:
            raise ValueError(
                f"the class {name!r} cannot name a corpus, as '/' parts names from ids: map "
                "the stream to other names"
            )
    return {name: ClassOfCorpus(classified, name) for name in classified.names}


def weights_of(weights: Weights | Literal["equal"], names: list[str]) -> Weights:
    """Return the weights of classes, whose names may have been given as numbers."""
    if isinstance(weights, str):
        if weights != "equal":
            raise ValueError(f"weights are 'equal', or a dict by class, got {weights!r:.60}")
        return dict.fromkeys(names, 1)
    if isinstance(weights, Mapping):
        return {str(name): weight for name, weight in weights.items()}
    return [(at, {str(name): weight for name, weight in then.items()}) for at, then in weights]


Weight = int | float | Fraction
Weights = Mapping[str, Weight] | Sequence[tuple[int, Mapping[str, Weight]]]

WHOLE = 2**32
_LONGEST = 2**46  # from one knot to the next
_MAX_TIME = 2**63 - 1
_WEIGHTS_ARE = (
    "weights are a dict such as {'web': 7, 'code': 3}, or a list of (nominal time, such a dict)"
)


@dataclass(frozen=True)
class Leg:
    """Shares that change evenly, from a nominal time to the next leg."""

    begin: int  # nominal time in samples
    # The share of every corpus at the beginning, and when `span` samples have passed, in units
    # of 2^-32; they sum to 2^32. The last leg goes on, and does not change.
    first: tuple[int, ...]
    last: tuple[int, ...]
    span: int  # the next leg may begin before all of it has passed


def legs_of(weights: object, names: Sequence[str]) -> list[Leg]:
    """Return the legs of weights as a user gives them."""
    if isinstance(weights, str) or not isinstance(weights, Mapping | Sequence):
        raise TypeError(f"{_WEIGHTS_ARE}; got {shown(weights)}")
    knots = [(0, weights)] if isinstance(weights, Mapping) else list(weights)
    if not knots:
        raise ValueError("weights must name at least one time, got an empty list")
    times, shares = [], []
    for knot in knots:
        time, given = _knot_of(knot)
        times.append(time)
        shares.append(shares_of([_weight(given, name, time) for name in names], time))
        for name in given.keys() - {*names}:
            raise ValueError(f"no corpus is called {name!r}, there are: {', '.join(names)}")
    for before, after in pairwise(times):
        if not before < after:
            raise ValueError(f"the times of weights must ascend, got {after} after {before}")
        if after - before > _LONGEST:
            raise ValueError(f"weights at {before} and {after} are over 2^46 samples apart")
    legs = [
        Leg(begin, first, last, end - begin)
        for (begin, end), (first, last) in zip(pairwise(times), pairwise(shares), strict=True)
    ]
    legs.append(Leg(times[-1], shares[-1], shares[-1], 0))
    if times[0] > 0:
        legs.insert(0, Leg(0, shares[0], shares[0], times[0]))
    return legs


def shares_of(weights: Sequence[Fraction], time: int) -> tuple[int, ...]:
    """Return weights as shares in units of 2^-32.

    ValueError if all are 0, or one is too small beside the others.
    """
    if not any(weights):
        raise ValueError(f"all weights at nominal time {time} are 0; one must be positive")
    shares = units_of(weights)
    for number, (weight, share) in enumerate(zip(weights, shares, strict=True)):
        if weight and not share:
            raise ValueError(
                f"weight {number} at nominal time {time} is less than 2^-32 of the sum; give 0"
            )
    return shares


def units_of(weights: Sequence[Fraction]) -> tuple[int, ...]:
    """Return weights in units of 2^-32 of their sum, such that they sum to 2^32."""
    total = sum(weights)
    ends = [math.floor(WHOLE * sum_ / total) for sum_ in accumulate(weights)]
    return tuple(end - begin for begin, end in pairwise([0, *ends]))


def drop_out(
    legs: Sequence[Leg], ends: Sequence[int], earlier: Mapping[int, int] | None = None
) -> tuple[list[Leg], dict[int, int]]:
    """Return the legs where a corpus drops out at its end, and the rest takes over.

    With them come the nominal times at which corpora drop out, by number.
    """
    legs, times = list(legs), dict(earlier or {})
    left = set(range(len(ends))) - times.keys()
    while len(left) > 1:
        rates = rates_of(legs)
        reached = {number: rates[number].reached(ends[number]) for number in left}
        time = min(reached.values())
        if time > _MAX_TIME:
            break
        times |= {number: time for number in left if reached[number] == time}
        left -= times.keys()
        legs = _without(legs, left, time)
    return legs, times


def _joined(
    before: Sequence[Leg], later: Sequence[Leg], left: set[int], time: int
) -> list[Leg]:
    """Return legs up to a time, and the later legs of the remaining corpora from there on."""
    found = [leg for leg in before if leg.begin < time]
    found += [leg for leg in _without(later, left, time) if leg.begin >= time]
    return found or list(before)


def _without(legs: Sequence[Leg], left: set[int], time: int) -> list[Leg]:
    """Return legs in which only the corpora of `left` have a share from a time on."""
    if not left:
        return list(legs)
    found = [leg for leg in legs if leg.begin < time]
    for leg, end in zip(legs, [*(leg.begin for leg in legs[1:]), None], strict=True):
        if end is not None and end <= time:
            continue
        begin = max(leg.begin, time)
        first = _scaled(_shares(leg, begin), left)
        last = first if end is None else _scaled(_shares(leg, end), left)
        # If no remaining corpus has a share, the weights of the other end hold, if any.
        first, last = first or last, last or first
        none = (0,) * len(leg.first)
        found.append(Leg(begin, first or none, last or none, 0 if end is None else end - begin))
    return found


def _shares(leg: Leg, time: int) -> list[Fraction]:
    """Return the shares within a leg."""
    if leg.first == leg.last:
        return [Fraction(n) for n in leg.first]
    part = Fraction(time - leg.begin, leg.span)
    return [n + (m - n) * part for n, m in zip(leg.first, leg.last, strict=True)]


def _scaled(shares: Sequence[Fraction], left: set[int]) -> tuple[int, ...] | None:
    """Return the shares of those who are left, scaled to the whole; None if they have none."""
    kept = [share if n in left else Fraction(0) for n, share in enumerate(shares)]
    return units_of(kept) if any(kept) else None


def rates_of(legs: Sequence[Leg]) -> list[_core.order.Rate]:
    """Return how fast a mixture goes through each of its corpora."""
    begins = np.array([leg.begin for leg in legs], np.uint64)
    firsts = np.array([leg.first for leg in legs], np.uint64)
    lasts = np.array([leg.last for leg in legs], np.uint64)
    spans = np.array([leg.span for leg in legs], np.uint64)
    return [
        _core.order.Rate(begins, firsts[:, number].copy(), lasts[:, number].copy(), spans)
        for number in range(firsts.shape[1])
    ]


def _knot_of(knot: object) -> tuple[int, Mapping[str, object]]:
    if not isinstance(knot, Sequence) or isinstance(knot, str) or len(knot) != 2:
        raise TypeError(f"{_WEIGHTS_ARE}; got {shown(knot)}")
    time, weights = knot
    check_int("the time of weights", time, 0, _MAX_TIME)
    if not isinstance(weights, Mapping):
        raise TypeError(f"the weights at {time} must be a dict by name, got {shown(weights)}")
    return int(time), weights


def _weight(weights: Mapping[str, object], name: str, time: int) -> Fraction:
    if name not in weights:
        raise ValueError(
            f"the weights at nominal time {time} have none for {name!r}; 0 leaves it out"
        )
    weight = weights[name]
    subject = f"the weight of {name!r} at nominal time {time}"
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise TypeError(f"{subject} must be a number, got {shown(weight)}")
    if not isinstance(weight, Rational) and not math.isfinite(weight):
        raise ValueError(f"{subject} must be finite, got {weight}")
    # A float counts as its decimal text: 0.1 is 1/10.
    exact = Fraction(weight) if isinstance(weight, Rational) else Fraction(repr(float(weight)))
    if exact < 0:
        raise ValueError(f"{subject} must not be negative, got {weight}")
    return exact
