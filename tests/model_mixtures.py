"""docs/order.md, "Mixtures", and their rows and buckets, in plain Python: slow and obvious."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tests import model
from tests.model import Entry, ModelCorpus, ModelSettings
from tests.model_layouts import (
    NO_LIMITS,
    BucketMinibatch,
    Buckets,
    Limits,
    Row,
    nearest,
    pieces_of,
    rows_of_mixture,
)

WHOLE = 2**32
ENDLESS = 2**62
UNIT = 2**33
BEHIND = 256  # samples that a corpus may lag, in small corpora


@dataclass(frozen=True)
class Leg:
    """(T, n, m, D) of the page, for all corpora."""

    begin: int
    first: tuple[int, ...]
    last: tuple[int, ...]
    span: int


def shares(weights: Sequence[Fraction | int]) -> tuple[int, ...]:
    whole = Fraction(sum(weights))
    ends = [0, *(math.floor(WHOLE * w / whole) for w in itertools.accumulate(weights))]
    return tuple(end - begin for begin, end in itertools.pairwise(ends))


def legs_of(knots: Sequence[tuple[int, Sequence[Fraction | int]]]) -> list[Leg]:
    found = [
        Leg(t, shares(w), shares(v), u - t) for (t, w), (u, v) in itertools.pairwise(knots)
    ]
    time, weights = knots[-1]
    found.append(Leg(time, shares(weights), shares(weights), 0))
    if knots[0][0] > 0:
        found.insert(0, Leg(0, found[0].first, found[0].first, knots[0][0]))
    return found


def in_leg(leg: Leg, corpus: int, x: int) -> int:
    n, m = leg.first[corpus], leg.last[corpus]
    return 2 * n * x if n == m else x * (2 * n * leg.span + (m - n) * x) // leg.span


def due(legs: Sequence[Leg], corpus: int, time: int) -> int:
    """In units of 2^-33 samples."""
    total = 0
    for leg, end in zip(legs, [*(leg.begin for leg in legs[1:]), None], strict=True):
        if end is None or time < end:
            return total + in_leg(leg, corpus, time - leg.begin)
        total += in_leg(leg, corpus, end - leg.begin)
    raise AssertionError


def key(legs: Sequence[Leg], corpus: int, own_time: int, least: int = 0) -> int | None:
    """The key of what begins at an own time; None: it never comes.

    It is known to be at least `least`.
    """
    births = [leg.begin for leg in legs if leg.first[corpus] or leg.last[corpus]]
    if not births:
        return None
    if due(legs, corpus, 2**63) < UNIT * own_time:
        return None
    low, high = least, least + 1
    while due(legs, corpus, high) < UNIT * own_time:
        low, high = high, high + 2 * (high - least)
    while low < high:
        middle = (low + high) // 2
        if due(legs, corpus, middle) >= UNIT * own_time:
            high = middle
        else:
            low = middle + 1
    return max(births[0], low)


def shares_at(leg: Leg, time: int) -> list[Fraction]:
    if leg.first == leg.last:
        return [Fraction(n) for n in leg.first]
    part = Fraction(time - leg.begin, leg.span)
    return [n + (m - n) * part for n, m in zip(leg.first, leg.last, strict=True)]


def drop(legs: list[Leg], sizes: Sequence[int]) -> list[Leg]:
    return drop_more(legs, sizes, {})[0]


def drop_more(
    legs: list[Leg], sizes: Sequence[int], gone: Mapping[int, int]
) -> tuple[list[Leg], dict[int, int]]:
    """The legs, and who drops out when, where some are gone already."""
    times = dict(gone)
    left = set(range(len(sizes))) - times.keys()
    while len(left) > 1:
        keys = {c: key(legs, c, sizes[c]) for c in left}
        known = [k for k in keys.values() if k is not None]
        if not known:
            break
        time = min(known)
        times |= {c: time for c in left if keys[c] == time}
        left -= times.keys()
        if not left:
            break

        def scaled(found: list[Fraction], left: set[int] = left) -> tuple[int, ...]:
            kept = [n if c in left else Fraction(0) for c, n in enumerate(found)]
            return shares(kept) if any(kept) else ()

        new = [leg for leg in legs if leg.begin < time]
        for leg, end in zip(legs, [*(leg.begin for leg in legs[1:]), None], strict=True):
            if end is not None and end <= time:
                continue
            begin = max(time, leg.begin)
            first = scaled(shares_at(leg, begin))
            last = first if end is None else scaled(shares_at(leg, end))
            none = (0,) * len(sizes)
            new.append(
                Leg(
                    begin,
                    first or last or none,
                    last or first or none,
                    0 if end is None else end - begin,
                )
            )
        legs = new
    return legs, times


@dataclass(frozen=True)
class Mixed:
    """One sequence at its place in a mixture."""

    time: int
    corpus: int
    sequence: int  # in the corpus
    size: int
    sweep: int
    lane: int


@dataclass(frozen=True)
class ModelMixture:
    corpora: Mapping[str, ModelCorpus]
    knots: Sequence[tuple[int, Sequence[Fraction | int]]]
    settings: ModelSettings
    at_end: str = "repeat"
    sweeps: int = 1

    @property
    def legs(self) -> list[Leg]:
        legs = legs_of(self.knots)
        if self.at_end != "drop":
            return legs
        return drop(legs, [corpus.num_samples for corpus in self.corpora.values()])

    def own_settings(self, name: str) -> ModelSettings:
        digest = 0xCBF29CE484222325
        for byte in name.encode():
            digest = ((digest ^ byte) * 0x100000001B3) % 2**64
        return replace(self.settings, seed=model.derive_key(1, self.settings.seed, 10, digest))

    def order(self) -> Iterator[Mixed]:
        """All that comes, from the beginning."""
        legs = self.legs
        walks = [
            model.timeline(corpus, self.own_settings(name))
            for name, corpus in self.corpora.items()
        ]
        heads = [next(walk) for walk in walks]
        keys = [key(legs, c, head.time) for c, head in enumerate(heads)]
        sizes = [corpus.num_samples for corpus in self.corpora.values()]
        stop = None
        if self.at_end == "stop":
            ends = [
                (key(legs, c, self.sweeps * size), c, self.sweeps * size)
                for c, size in enumerate(sizes)
            ]
            stop = min((k, c, end) for k, c, end in ends if k is not None)
        time = 0
        while True:
            least = None
            for c, head in enumerate(heads):
                if self.at_end == "drop" and head.time >= sizes[c]:
                    continue
                k = keys[c]
                if k is not None and (least is None or (k, c, head.time) < least):
                    least = (k, c, head.time)
            if least is None or (stop is not None and least >= stop):
                return
            c = least[1]
            head = heads[c]
            yield Mixed(time, c, head.sequence, head.size, head.sweep, head.lane)
            time += head.size
            heads[c] = next(walks[c])
            if keys[c] is not None:
                keys[c] = key(legs, c, heads[c].time, keys[c])


# docs/layouts.md, sections 3 and 6: rows and buckets of a mixture ---------------------------


def extent(mixture: ModelMixture) -> tuple[int, int]:
    """Sequences and blocks of the only sweep."""
    sequences = blocks = 0
    for name, corpus in mixture.corpora.items():
        sweeps = ENDLESS // corpus.num_samples
        own = len(model.base_lists(corpus, mixture.own_settings(name), 0))
        sequences = max(sequences, sweeps * corpus.num_sequences)
        blocks = max(blocks, min(sweeps * own, 2**64 - 1))
    return sequences, blocks


def power_of_two(count: int) -> int:
    return min(1 << (count - 1).bit_length(), ENDLESS)


def row_parts(mixture: ModelMixture, length: int) -> int:
    sequences, blocks = extent(mixture)
    lanes = mixture.settings.num_lanes if mixture.settings.randomize else 1
    wanted = max(
        1,
        nearest(ENDLESS, 2**11 * length),
        sequences // 2**18,
        min(-(-blocks // lanes), ENDLESS // (2**9 * length)),
    )
    return power_of_two(wanted)


def first_in_sight(
    mixture: ModelMixture, part: int, samples: int, look_ahead: int
) -> tuple[list[Mixed], bool]:
    """All that begins before a time, what rows see from there, and if that is all there is.

    Rows of which the next two begin before that time are as if everything were there.
    """
    found: list[Mixed] = []
    last_sweeps: dict[int, int] = {}
    seen: dict[int, int] = {}
    part_end = (samples // part + 1) * part
    legs = mixture.legs
    for one in mixture.order():
        if one.time < samples:
            found.append(one)
            last_sweeps[one.corpus] = one.sweep
            continue
        waiting = {
            corpus
            for corpus in last_sweeps
            if seen.get(corpus, 0) < look_ahead and has_share(legs, corpus, samples, part_end)
        }
        if not waiting or one.time >= part_end:
            return found, False
        if one.corpus in waiting:
            found.append(one)
            seen[one.corpus] = seen.get(one.corpus, 0) + 1
            if one.sweep > last_sweeps[one.corpus]:  # a row sees one sweep of a corpus
                seen[one.corpus] = look_ahead
    return found, True


def has_share(legs: Sequence[Leg], corpus: int, begin: int, end: int) -> bool:
    """A corpus has a share in a span, or had one shortly before."""
    ends = [*(leg.begin for leg in legs[1:]), ENDLESS]
    return any(
        leg.first[corpus] or leg.last[corpus]
        for leg, leg_end in zip(legs, ends, strict=True)
        if leg.begin < end and leg_end > begin - BEHIND
    )


def packed_mixture(
    mixture: ModelMixture,
    taken: Sequence[Mixed],
    length: int,
    look_ahead: int,
    limits: Mapping[int, Limits] | None = None,  # by corpus
) -> Iterator[tuple[Row, list[Mixed]]]:
    """Rows, and whose pieces they hold, of what comes first; long sequences are split."""
    part = ENDLESS // row_parts(mixture, length)
    for _, members in itertools.groupby(taken, key=lambda one: one.time // part):
        pack = list(members)
        pieces = [
            (one, piece) for one in pack for piece in pieces_of(one.sequence, one.size, length)
        ]
        found = [(limits or {}).get(one.corpus, NO_LIMITS) for one, _ in pieces]
        counts = [own.counts([piece]) for own, (_, piece) in zip(found, pieces, strict=True)]
        rows = rows_of_mixture(
            [(one.corpus, one.sweep, piece.size) for one, piece in pieces],
            length,
            look_ahead,
            [[own[0] for own in column] for column in zip(*counts, strict=True)],
            found[0].most,
        )
        time = pack[0].time
        for row in rows:
            yield (
                Row(time, 0, tuple(pieces[place][1] for place in row)),
                [pieces[place][0] for place in row],
            )
            time += sum(pieces[place][1].size for place in row)


def bucket_parts(mixture: ModelMixture) -> int:
    sequences, blocks = extent(mixture)
    settings = mixture.settings
    by_window = blocks // settings.num_lanes if settings.randomize else 0
    return power_of_two(max(1, sequences // 2**17, by_window))


def bucketed_mixture(
    mixture: ModelMixture,
    taken: Sequence[Mixed],
    boundaries: Sequence[int],
    requests: Iterator[int],
    *,
    is_all: bool = False,
) -> Iterator[BucketMinibatch]:
    """Minibatches, of which the sequences name places in `taken`: what comes first, or all.

    They end where it depends on what comes later.
    """
    part = ENDLESS // bucket_parts(mixture)
    in_order = replace(mixture.settings, randomize=False)  # of minibatches, in any mixture
    places = enumerate(taken)
    for number, members in itertools.groupby(places, key=lambda one: one[1].time // part):
        entries = [
            Entry(one.time, place, one.size, one.sweep, one.lane) for place, one in members
        ]
        buckets = Buckets(in_order, boundaries, 0, number, entries)
        is_whole = is_all or number < taken[-1].time // part
        while any(buckets.left):
            request = next(requests, None)
            if request is None or not (is_whole or buckets.has_full(request)):
                return
            time = entries[0].time + buckets.samples
            key, drawn = buckets.draw(request)
            yield BucketMinibatch(time, key, drawn, 0)
