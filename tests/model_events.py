"""docs/order.md, "Events", in plain Python: slow and obvious."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

from tests.model import find
from tests.model_mixtures import Leg, ModelMixture, drop_more, key, legs_of, shares, shares_at


@dataclass(frozen=True)
class Unit:
    """What a layout makes as one: a sequence, a row or a minibatch.

    It begins with `time`, and holds sequences or pieces of them, of so many samples each.
    """

    time: int
    ids: tuple[str, ...]
    sizes: tuple[int, ...]

    def pieces(self) -> list[tuple[int, str]]:
        """When each begins, and its id."""
        before = accumulate(self.sizes, initial=self.time)
        return list(zip(before, self.ids, strict=False))


@dataclass(frozen=True)
class ModelEvents:
    """Bans as (T, ids), skips as (T, T')."""

    bans: Sequence[tuple[int, Collection[str]]] = ()
    skips: Sequence[tuple[int, int]] = ()

    def is_skipped(self, time: int) -> bool:
        return any(begin <= time < end for begin, end in self.skips)

    def banned(self, time: int) -> set[str]:
        return {name for at, ids in self.bans if at <= time for name in ids}

    def delivered(self, units: Iterable[Unit]) -> list[tuple[int, str]]:
        """What of the units comes: the time of each, and an id."""
        return [
            (unit.time, name)
            for unit in units
            if not self.is_skipped(unit.time)
            for time, name in unit.pieces()
            if name not in self.banned(time)
        ]

    def cuts(self) -> list[int]:
        """Times that no minibatch of sequences or rows reaches over."""
        return sorted({begin for begin, _ in self.skips})


@dataclass(frozen=True)
class ChangedMixture(ModelMixture):
    """A mixture whose weights change: (T, weights)."""

    changes: Sequence[tuple[int, Sequence[Fraction | int]]] = ()

    @property
    def legs(self) -> list[Leg]:
        sizes = [corpus.num_samples for corpus in self.corpora.values()]
        legs = legs_of(self.knots)
        everyone = set(range(len(sizes)))
        dropped, gone = drop_more(legs, sizes, {})
        for number, (begin, change) in enumerate(self.changes):
            time = replace(self, changes=self.changes[:number]).free_key(begin)
            if time is None:
                continue
            later = scaled_from(legs_of([(0, change)]), everyone, time)
            legs = [*before(legs, time), *later]
            gone = {c: at for c, at in gone.items() if at <= time}
            if everyone - gone.keys():
                later = scaled_from(legs, everyone - gone.keys(), time)
                dropped, gone = drop_more([*before(dropped, time), *later], sizes, gone)
        return dropped if self.at_end == "drop" else legs

    def free_key(self, time: int) -> int | None:
        legs, corpora = self.legs, list(self.corpora.items())
        for one in self.order():
            if one.time >= time:
                name, corpus = corpora[one.corpus]
                own = find(corpus, self.own_settings(name), one.sequence, one.sweep)
                k = key(legs, one.corpus, own)
                assert k is not None
                return k + 1 if k > one.time else time
        return None


def before(legs: list[Leg], time: int) -> list[Leg]:
    return [leg for leg in legs if leg.begin < time]


def scaled_from(legs: list[Leg], left: set[int], time: int) -> list[Leg]:
    """The legs from a time on, of the corpora that are left."""

    def scaled(found: list[Fraction]) -> tuple[int, ...] | None:
        kept = [n if c in left else Fraction(0) for c, n in enumerate(found)]
        return shares(kept) if any(kept) else None

    new = []
    for leg, end in zip(legs, [*(leg.begin for leg in legs[1:]), None], strict=True):
        if end is not None and end <= time:
            continue
        begin = max(time, leg.begin)
        first = scaled(shares_at(leg, begin))
        last = first if end is None else scaled(shares_at(leg, end))
        none = (0,) * len(leg.first)
        span = 0 if end is None else end - begin
        new.append(Leg(begin, first or last or none, last or first or none, span))
    return new
