"""docs/layouts.md in plain Python: the oracle of the tests of layouts, slow and obvious."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests import model
from tests.model import Entry, ModelCorpus, ModelSettings
from tests.model_limits import fits, largest, largest_of, piece_of, rows_within

# 2. Joining a list into rows ------------------------------------------------------------------


def rows_in_order(sizes: Sequence[int], length: int, look_ahead: int) -> list[list[int]]:
    """Rows as places in the list."""
    left = list(range(len(sizes)))
    rows = []
    while left:
        row = [left.pop(0)]
        while True:
            room = length - sum(sizes[place] for place in row)
            fitting = [place for place in left[:look_ahead] if sizes[place] <= room]
            if not fitting:
                break
            row.append(max(fitting, key=lambda place: (sizes[place], -place)))
            left.remove(row[-1])
        rows.append(row)
    return rows


def rows_longest_first(sizes: Sequence[int], length: int) -> list[list[int]]:
    """The usual first fit decreasing: rows stay open, each takes the first with room."""
    rows: list[list[int]] = []
    room = np.full(len(sizes), length)
    for place in sorted(range(len(sizes)), key=lambda place: (-sizes[place], place)):
        row = int(np.argmax(room >= sizes[place]))
        if row == len(rows):
            rows.append([])
        rows[row].append(place)
        room[row] -= sizes[place]
    return [sorted(row) for row in rows]


def rows_of_mixture(
    pieces: Sequence[tuple[int, int, int]],
    length: int,
    look_ahead: int,
    counts: Sequence[Sequence[int]] = (),
    limits: Sequence[int] = (),
) -> list[list[int]]:
    """Rows as places in the list, of pieces as (corpus, sweep, size)."""
    sizes = [size for _, _, size in pieces]
    most = (length, *limits)
    known = [piece_of(i, own, most) for i, own in enumerate(zip(sizes, *counts, strict=True))]
    begins = list(itertools.accumulate(sizes, initial=0))
    corpora = {corpus for corpus, _, _ in pieces}
    left = list(range(len(pieces)))
    taken = dict.fromkeys(corpora, 0)
    rows = []
    while left:
        end = sum(taken.values()) + 2 * length
        due = {
            c: sum(size for (d, _, size), begin in zip(pieces, begins, strict=False)
                   if d == c and begin < end)
            for c in corpora
        }  # fmt: skip
        row: list[int] = []
        room = most
        in_order = True
        while True:
            sights = []
            for corpus in corpora:
                own = [place for place in left if pieces[place][0] == corpus][:look_ahead]
                if taken[corpus] < due[corpus]:
                    sights.append(
                        [known[one] for one in own if pieces[one][1] == pieces[own[0]][1]]
                    )
            if not sights:
                break
            oldest = min((sight[0] for sight in sights), key=lambda one: one.place)
            in_order = in_order and fits(oldest, room)
            offers = [oldest] if in_order else [largest(one, room, most) for one in sights]
            chosen = largest_of(offers, most)
            if chosen is None:
                break
            left.remove(chosen.place)
            row.append(chosen.place)
            taken[pieces[chosen.place][0]] += sizes[chosen.place]
            room = tuple(a - b for a, b in zip(room, chosen.measures, strict=True))
        rows.append(sorted(row))
    return rows


# 3. Packed rows -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    sequence: int
    first: int  # sample of the sequence
    size: int
    goes_on: bool = False  # the sequence has more samples


@dataclass(frozen=True)
class Row:
    time: int
    sweep: int
    pieces: tuple[Piece, ...]


def nearest(a: int, b: int) -> int:
    return (a + b // 2) // b


def pack_ranges(corpus: ModelCorpus, length: int) -> Iterator[tuple[int, int]]:
    """Every pack of a sweep whose order is kept, as (begin, end) in the list."""
    total = corpus.num_samples
    count = max(1, nearest(total, length * 2**14))
    for j in range(count):
        yield j * total // count, (j + 1) * total // count


@dataclass(frozen=True)
class Limits:
    """The most that rows hold of what is carried, by name, and what a sequence carries."""

    most: tuple[int, ...] = ()
    carried: Callable[[int], tuple[int, ...]] = lambda _: ()

    def counts(self, pieces: Sequence[Piece]) -> list[list[int]]:
        """Of each limit, what every piece carries: the first one what its sequence does."""
        return [
            [0 if one.first else min(self.carried(one.sequence)[i], most) for one in pieces]
            for i, most in enumerate(self.most)
        ]


NO_LIMITS = Limits()


def pieces_of(sequence: int, size: int, length: int) -> list[Piece]:
    """A sequence, cut if it is longer than a row."""
    return [
        Piece(sequence, first, min(length, size - first), first + length < size)
        for first in range(0, size, length)
    ]


def rows_of_pack(
    pieces: list[Piece], length: int, key: int, limits: Limits
) -> list[tuple[Piece, ...]]:
    """The rows of a shuffled pack."""
    sizes, counts = [piece.size for piece in pieces], limits.counts(pieces)
    if any(map(any, counts)):
        rows = rows_within(sizes, length, counts, limits.most)
    else:
        rows = rows_longest_first(sizes, length)
    order = model.Permutation(len(rows), key).take(0, len(rows))
    return [tuple(pieces[place] for place in rows[r]) for r in order]


def kept_rows(
    corpus: ModelCorpus,
    settings: ModelSettings,
    length: int,
    look_ahead: int,
    sweep: int,
    limits: Limits,
) -> list[Row]:
    """One sweep whose order is kept as rows. Sequences longer than a row are split."""
    order = model.sweep_list(corpus, settings, sweep)
    starts = itertools.accumulate((corpus.sizes[sequence] for sequence in order), initial=0)
    placed = list(zip(order, starts, strict=False))
    result = []
    time = sweep * corpus.num_samples
    for begin, end in pack_ranges(corpus, length):
        pieces = [
            piece
            for sequence, start in placed
            if begin <= start < end
            for piece in pieces_of(sequence, corpus.sizes[sequence], length)
        ]
        sizes, counts = [piece.size for piece in pieces], limits.counts(pieces)
        if any(map(any, counts)):
            places = rows_within(sizes, length, counts, limits.most, look_ahead)
        else:
            places = rows_in_order(sizes, length, look_ahead)
        for row in places:
            members = tuple(pieces[place] for place in row)
            result.append(Row(time, sweep, members))
            time += sum(piece.size for piece in members)
    return result


def pack_parts(corpus: ModelCorpus, settings: ModelSettings, length: int) -> int:
    """Packs of a shuffled sweep."""
    blocks = len(model.base_lists(corpus, settings, 0))
    windows = -(-blocks // settings.num_lanes)
    return max(
        1,
        nearest(corpus.num_samples, 2**11 * length),
        corpus.num_sequences // 2**18,
        min(windows, corpus.num_samples // (2**9 * length)),
    )


def shuffled_rows(
    corpus: ModelCorpus, settings: ModelSettings, length: int, sweep: int, limits: Limits
) -> list[Row]:
    """One shuffled sweep as rows of its parts, in order; long sequences are split."""
    result = []
    total = corpus.num_samples
    count = pack_parts(corpus, settings, length)
    for _, number, entries in parts(corpus, settings, count, (sweep + 1) * total, sweep):
        pieces = [
            piece
            for entry in entries
            for piece in pieces_of(entry.sequence, entry.size, length)
        ]
        key = model.derive_key(model.ORDER_VERSION, settings.seed, 5, sweep, number)
        time = entries[0].time
        for row in rows_of_pack(pieces, length, key, limits):
            result.append(Row(time, sweep, row))
            time += sum(piece.size for piece in row)
    return result


def packed_sweep(
    corpus: ModelCorpus,
    settings: ModelSettings,
    length: int,
    look_ahead: int,
    sweep: int,
    *,
    limits: Limits = NO_LIMITS,
) -> list[Row]:
    """One sweep as rows, in order. Sequences longer than a row are split."""
    if not settings.randomize:
        return kept_rows(corpus, settings, length, look_ahead, sweep, limits)
    return shuffled_rows(corpus, settings, length, sweep, limits)


# 4. Parts of a sweep --------------------------------------------------------------------------


def parts(
    corpus: ModelCorpus,
    settings: ModelSettings,
    count: int,
    limit: int | None,
    first_sweep: int = 0,
) -> Iterator[tuple[int, int, list[Entry]]]:
    """Parts of the timeline as (sweep, number, entries); endless unless there is a limit."""
    total = corpus.num_samples
    for sweep in itertools.count(first_sweep):
        for number in range(count):
            begin, end = (sweep * total + q * total // count for q in (number, number + 1))
            entries = [
                entry
                for entry in model.sweep_entries(corpus, settings, sweep)
                if begin <= entry.time < end and (limit is None or entry.time < limit)
            ]
            if entries:
                yield sweep, number, entries
            if limit is not None and end >= limit:
                return


# 5. Best boundaries ---------------------------------------------------------------------------


def padded_cells(counts: dict[int, int], boundaries: Sequence[int]) -> int:
    return sum(
        count * min(boundary for boundary in boundaries if boundary >= size)
        for size, count in counts.items()
    )


def best_boundaries(counts: dict[int, int], num_buckets: int) -> list[int]:
    """The definition: all choices are tried."""
    sizes = sorted(counts)
    ends = itertools.combinations(sizes[:-1], min(num_buckets, len(sizes)) - 1)
    choices = [[*chosen, sizes[-1]] for chosen in ends]
    return min(choices, key=lambda chosen: (padded_cells(counts, chosen), chosen[::-1]))


# 6. Buckets -----------------------------------------------------------------------------------


@dataclass
class Buckets:
    """One part in buckets; `draw` takes minibatches from it."""

    settings: ModelSettings
    boundaries: Sequence[int]
    sweep: int
    number: int
    entries: list[Entry]
    delivered: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.delivered = [0] * len(self.boundaries)
        self.members = [
            [e for e in self.entries if low < e.size <= high]
            for low, high in itertools.pairwise([0, *self.boundaries])
        ]

    @property
    def left(self) -> list[list[Entry]]:
        return [m[d:] for m, d in zip(self.members, self.delivered, strict=True)]

    @property
    def samples(self) -> int:
        """Delivered samples."""
        return sum(
            entry.size
            for members, delivered in zip(self.members, self.delivered, strict=True)
            for entry in members[:delivered]
        )

    def has_full(self, request: int) -> bool:
        """Some bucket has a full minibatch."""
        return any(
            len(left) >= max(1, request // key)
            for left, key in zip(self.left, self.boundaries, strict=True)
        )

    def draw(self, request: int, num_sequences: int = 0) -> tuple[int, list[Entry]]:
        """The bucket's boundary, and the sequences of the next minibatch."""
        wanted = [num_sequences or max(1, request // key) for key in self.boundaries]
        weights = [len(left) // n for left, n in zip(self.left, wanted, strict=True)]
        if not any(weights):
            weights = [int(bool(left)) for left in self.left]
        if self.settings.randomize:
            key = model.derive_key(
                model.ORDER_VERSION, self.settings.seed, 4, self.sweep, self.number
            )
            word = model.mix64((key + model.G * self.samples) & model.MASK)
            x = word * sum(weights) >> 64
            sums = itertools.accumulate(weights)
            bucket = next(b for b, weight in enumerate(sums) if weight > x)
        else:
            bucket = min(
                (b for b, weight in enumerate(weights) if weight),
                key=lambda b: self.entries.index(self.left[b][: wanted[b]][-1]),
            )
        taken = self.left[bucket][: wanted[bucket]]
        self.delivered[bucket] += len(taken)
        return self.boundaries[bucket], taken


def bucket_parts(corpus: ModelCorpus, settings: ModelSettings) -> int:
    by_window = 0
    if settings.randomize:
        blocks = len(model.base_lists(corpus, settings, 0))
        by_window = blocks // settings.num_lanes
    return max(1, corpus.num_sequences // 2**17, by_window)


@dataclass(frozen=True)
class BucketMinibatch:
    time: int
    key: int
    entries: list[Entry]
    sweeps_ended: int


def bucketed(
    corpus: ModelCorpus,
    settings: ModelSettings,
    boundaries: Sequence[int],
    requests: Iterator[int],
    limit: int | None = None,
    num_sequences: int = 0,
    first_sweep: int = 0,
) -> Iterator[BucketMinibatch]:
    """Minibatches from the begin of a sweep, one for each request."""
    time = first_sweep * corpus.num_samples
    count = bucket_parts(corpus, settings)
    for sweep, number, entries in parts(corpus, settings, count, limit, first_sweep):
        buckets = Buckets(settings, boundaries, sweep, number, entries)
        while any(buckets.left):
            request = next(requests, None)
            if request is None:
                return
            key, taken = buckets.draw(request, num_sequences)
            end = time + sum(entry.size for entry in taken)
            ended = end // corpus.num_samples - time // corpus.num_samples
            yield BucketMinibatch(time, key, taken, ended)
            time = end


# 7. Truncated back-propagation through time ---------------------------------------------------


@dataclass(frozen=True)
class BpttMinibatch:
    time: int
    rows: list[list[Piece]]
    sweeps_ended: int


def bptt(
    corpus: ModelCorpus,
    settings: ModelSettings,
    length: int,
    requests: Iterator[int],
    limit: int | None = None,
    first_sweep: int = 0,
) -> Iterator[BpttMinibatch]:
    """Minibatches from the begin of a sweep: queues of sequences, topped up as by CNTK."""
    time = first_sweep * corpus.num_samples
    count = max(1, corpus.num_sequences // 2**20)
    for _, _, entries in parts(corpus, settings, count, limit, first_sweep):
        line = deque(entries)
        rows: list[deque[tuple[Entry, int]]] = []  # of sequences, and samples delivered
        while line or any(rows):
            request = next(requests, None)
            if request is None:
                return
            if not rows:
                rows = [deque() for _ in range(max(1, request // length))]
            for row in rows:
                while line and sum(entry.size - done for entry, done in row) <= length:
                    row.append((line.popleft(), 0))
            minibatch = [_take(row, length) for row in rows]
            end = time + sum(piece.size for row in minibatch for piece in row)
            ended = end // corpus.num_samples - time // corpus.num_samples
            yield BpttMinibatch(time, minibatch, ended)
            time = end


def _take(row: deque[tuple[Entry, int]], length: int) -> list[Piece]:
    pieces = []
    while row and length:
        entry, done = row.popleft()
        size = min(length, entry.size - done)
        pieces.append(Piece(entry.sequence, done, size, done + size < entry.size))
        length -= size
        if done + size < entry.size:
            row.appendleft((entry, done + size))
    return pieces


# What a model is to predict in rows -----------------------------------------------------------
