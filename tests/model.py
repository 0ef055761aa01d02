"""docs/order.md in plain Python: the oracle of the tests, slow and obvious.

Names follow the page. A word of 64 bits is a Python integer or a uint64 array: the formulas
below hold for both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Word = Any  # int, or ndarray of uint64

MASK = 2**64 - 1
G = 0x9E3779B97F4A7C15
ORDER_VERSION = 1
FISHER_YATES_MAX = 2**20
FULL_DATA_SWEEP = -1  # as a request or a limit: one sweep


# 1. Mixing ------------------------------------------------------------------------------------


def mix64(x: Word) -> Word:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def derive_key(*words: int) -> int:
    h = 0
    for i, word in enumerate(words):
        h = mix64(h ^ mix64((word + G * (i + 1)) & MASK))
    return h


def scale(x: Word, n: Word) -> Word:
    """(x * n) div 2^64 for n <= 2^32, in halves so that a uint64 array does not overflow."""
    return ((x >> 32) * n + (((x & 0xFFFFFFFF) * n) >> 32)) >> 32


# 2. Permutation -------------------------------------------------------------------------------


def fisher_yates(size: int, key: int) -> list[int]:
    """The table t of the page: place q holds item t[q]."""
    i = np.arange(size, dtype=np.uint64)
    draws = scale(mix64(i * G + key), i + 1).tolist()
    table = list(range(size))
    for place in range(size - 1, 0, -1):
        other = draws[place]
        table[place], table[other] = table[other], table[place]
    return table


class Feistel:
    """The network of the page over [0, side * side), cut to [0, size) by cycle walking."""

    def __init__(self, size: int, key: int, rounds: int = 8) -> None:
        self.size = size
        self.side = math.isqrt(size - 1) + 1  # the smallest a with a * a >= size
        self.keys = [mix64((key + G * (k + 1)) & MASK) for k in range(rounds)]

    def network(self, x: Word) -> Word:
        a = self.side
        u, v = x // a, x % a
        for key in self.keys:
            u, v = v, (u + scale(mix64((v + key) & MASK), a)) % a
        return u * a + v

    def network_backwards(self, x: Word) -> Word:
        a = self.side
        u, v = x // a, x % a
        for key in reversed(self.keys):
            u, v = (v + a - scale(mix64((u + key) & MASK), a)) % a, u
        return u * a + v

    def walk(self, x: NDArray[np.int64], step: Any) -> NDArray[np.int64]:
        y: NDArray[np.uint64] = step(x.astype(np.uint64))
        while (outside := y >= self.size).any():
            y[outside] = step(y[outside])
        return y.astype(np.int64)


class Permutation:
    """Permutation(n, key): place q holds item take(0, n)[q]."""

    def __init__(self, size: int, key: int) -> None:
        self.size = size
        self.key = key

    @cached_property
    def table(self) -> NDArray[np.int64]:
        return np.array(fisher_yates(self.size, self.key), dtype=np.int64)

    def take(self, first: int, count: int) -> NDArray[np.int64]:
        """The items of places [first, first + count)."""
        if self.size <= FISHER_YATES_MAX:
            return self.table[first : first + count]
        feistel = Feistel(self.size, self.key)
        return feistel.walk(np.arange(first, first + count), feistel.network)

    def place(self, item: int) -> int:
        """The place that holds an item."""
        if self.size <= FISHER_YATES_MAX:
            return int(np.flatnonzero(self.table == item)[0])
        feistel = Feistel(self.size, self.key)
        return int(feistel.walk(np.array([item]), feistel.network_backwards)[0])


# 3. The list of one sweep ---------------------------------------------------------------------


@dataclass(frozen=True)
class ModelCorpus:
    """A corpus as the sizes of its sequences, chunk by chunk."""

    chunks: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, chunks: Sequence[Sequence[int]]) -> ModelCorpus:
        return cls(tuple(tuple(chunk) for chunk in chunks))

    @cached_property
    def sizes(self) -> list[int]:
        """Sizes in samples, by sequence number."""
        return [size for chunk in self.chunks for size in chunk]

    @cached_property
    def members(self) -> list[range]:
        """Sequence numbers, by chunk."""
        ends = list(itertools.accumulate(len(chunk) for chunk in self.chunks))
        return [
            range(end - len(chunk), end) for end, chunk in zip(ends, self.chunks, strict=True)
        ]

    @property
    def num_sequences(self) -> int:
        return len(self.sizes)

    @property
    def num_samples(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True)
class ModelSettings:
    seed: int = 0
    num_lanes: int = 48
    window_chunks: int | None = None
    window_samples: int | None = None
    randomize: bool = True


def block_chunks(corpus: ModelCorpus, settings: ModelSettings) -> int:
    num_chunks, lanes = len(corpus.chunks), settings.num_lanes
    if settings.window_chunks is not None:
        return max(1, settings.window_chunks // lanes)
    if settings.window_samples is not None:
        return max(1, settings.window_samples * num_chunks // (lanes * corpus.num_samples))
    return num_chunks


def base_lists(corpus: ModelCorpus, settings: ModelSettings, sweep: int) -> list[list[int]]:
    """Per block, its sequence numbers in ascending order."""
    num_chunks = len(corpus.chunks)
    step = block_chunks(corpus, settings)
    key = derive_key(ORDER_VERSION, settings.seed, 1, sweep)
    chunk_order = Permutation(num_chunks, key).take(0, num_chunks).tolist()
    blocks = [chunk_order[begin : begin + step] for begin in range(0, num_chunks, step)]
    return [sorted(s for chunk in block for s in corpus.members[chunk]) for block in blocks]


def sweep_list(corpus: ModelCorpus, settings: ModelSettings, sweep: int) -> list[int]:
    if not settings.randomize:
        return list(range(corpus.num_sequences))
    result: list[int] = []
    for block, base in enumerate(base_lists(corpus, settings, sweep)):
        key = derive_key(ORDER_VERSION, settings.seed, 2, sweep, block)
        result += [base[item] for item in Permutation(len(base), key).take(0, len(base))]
    return result


# 4. Lanes and keys, 5. Nominal time -----------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One sequence at its place on the timeline."""

    time: int  # nominal time at which it starts
    sequence: int
    size: int
    sweep: int
    lane: int


@lru_cache(maxsize=64)
def sweep_entries(corpus: ModelCorpus, settings: ModelSettings, sweep: int) -> list[Entry]:
    """One sweep in its order: each sequence with its lane and nominal time."""
    num_samples = corpus.num_samples
    lanes = settings.num_lanes if settings.randomize else 1
    cuts = [lane * num_samples // lanes for lane in range(lanes + 1)]
    places = []
    start = 0
    for sequence in sweep_list(corpus, settings, sweep):
        lane = next(lane for lane in range(lanes) if cuts[lane] <= start < cuts[lane + 1])
        places.append((start - cuts[lane], lane, sequence))
        start += corpus.sizes[sequence]

    entries = []
    time = sweep * num_samples
    for _, lane, sequence in sorted(places):
        entries.append(Entry(time, sequence, corpus.sizes[sequence], sweep, lane))
        time += corpus.sizes[sequence]
    return entries


def sweep_order(corpus: ModelCorpus, settings: ModelSettings, sweep: int) -> list[int]:
    return [entry.sequence for entry in sweep_entries(corpus, settings, sweep)]


def timeline(corpus: ModelCorpus, settings: ModelSettings, time: int = 0) -> Iterator[Entry]:
    """Every sequence that starts at `time` or later, without end."""
    for sweep in itertools.count(time // corpus.num_samples):
        for entry in sweep_entries(corpus, settings, sweep):
            if entry.time >= time:
                yield entry


def find(corpus: ModelCorpus, settings: ModelSettings, sequence: int, sweep: int) -> int:
    """The nominal time of a sequence in a sweep."""
    entries = sweep_entries(corpus, settings, sweep)
    return next(entry.time for entry in entries if entry.sequence == sequence)


# 6. The minibatch at t ------------------------------------------------------------------------


def limit_of(
    corpus: ModelCorpus, max_samples: int | None = None, max_sweeps: int | None = None
) -> int | None:
    """The limit L of the page; None is INFINITELY_REPEAT."""
    if FULL_DATA_SWEEP in (max_samples, max_sweeps):
        return corpus.num_samples
    return max_samples if max_sweeps is None else max_sweeps * corpus.num_samples


def minibatch(
    corpus: ModelCorpus,
    settings: ModelSettings,
    time: int,
    request: int,
    limit: int | None = None,
    cross_sweeps: bool = True,
) -> list[Entry]:
    """The minibatch at `time`; empty at the end of data.

    Without `cross_sweeps` it ends with its sweep, as in MinibatchSourceFromData.
    """
    taken: list[Entry] = []
    samples = 0
    for entry in timeline(corpus, settings, time):
        if limit is not None and entry.time >= limit:
            break
        to_sweep_end = request == FULL_DATA_SWEEP
        if taken and (to_sweep_end or not cross_sweeps) and entry.sweep != taken[0].sweep:
            break
        if taken and not to_sweep_end and samples + entry.size > request:
            break
        taken.append(entry)
        samples += entry.size
    return taken


def sweeps_ended(corpus: ModelCorpus, taken: list[Entry]) -> int:
    """How many sweeps end inside a minibatch; `end_of_sweep` says whether any does."""
    if not taken:
        return 0
    begin, end = taken[0].time, taken[-1].time + taken[-1].size
    return end // corpus.num_samples - begin // corpus.num_samples


def minibatches(
    corpus: ModelCorpus,
    settings: ModelSettings,
    requests: Sequence[int],
    time: int = 0,
    limit: int | None = None,
    cross_sweeps: bool = True,
) -> Iterator[list[Entry]]:
    """Consecutive minibatches from `time`, one for each request."""
    for request in requests:
        taken = minibatch(corpus, settings, time, request, limit, cross_sweeps)
        yield taken
        time += sum(entry.size for entry in taken)


# 7. Shares of K workers -----------------------------------------------------------------------


def shares(
    corpus: ModelCorpus,
    settings: ModelSettings,
    taken: list[Entry],
    workers: int,
    balance: str | int | None = None,
) -> list[list[Entry]]:
    """The sequences of a minibatch by worker, each share in the order of the minibatch.

    `balance` is "samples", or A of the page, of which "attention" is one.
    """
    if not settings.randomize:
        return [taken[worker::workers] for worker in range(workers)]
    owners = [entry.lane % workers for entry in taken]
    if all(size == 1 for size in corpus.sizes) and taken:
        first_half = is_first_half(corpus, settings, taken[0].time)
        lanes = [entry.lane for entry in taken]
        owners = even_counts(lanes, workers, settings.num_lanes, first_half)
    elif balance is not None:
        owners = even_costs(owners, [cost(entry.size, balance) for entry in taken], workers)
    return [
        [entry for entry, owner in zip(taken, owners, strict=True) if owner == worker]
        for worker in range(workers)
    ]


def is_first_half(corpus: ModelCorpus, settings: ModelSettings, time: int) -> bool:
    blocks = -(-len(corpus.chunks) // block_chunks(corpus, settings))
    half = 2 * (time % corpus.num_samples) < corpus.num_samples
    return half and blocks >= 2 * settings.num_lanes


def spread(count: int) -> list[int]:
    """0, the middle, the quarters, ...: rev(i) * count div 2^b, each number once."""
    bits = (count - 1).bit_length()
    halves = (
        [int(f"{i:0{bits}b}"[::-1], 2) * count >> bits for i in range(2**bits)] if bits else [0]
    )
    return list(dict.fromkeys(halves))


def even_counts(lanes: list[int], workers: int, num_lanes: int, first_half: bool) -> list[int]:
    """The worker of each sequence of a minibatch, which has a lane."""
    if 2 * num_lanes < 3 * workers:
        return even_counts_in_turn([lane % workers for lane in lanes], workers)
    more = len(lanes) % workers
    line = list(range(workers))
    if not first_half and num_lanes % workers == 0:
        line[more:] = reversed(line[more:])
    place_of_lane = {}
    for worker in line:
        own = list(range(worker, num_lanes, workers))[::-1]
        for number in spread(len(own)) if own else []:
            place_of_lane[own[number]] = len(place_of_lane)
    in_line = sorted(range(len(lanes)), key=lambda j: (place_of_lane[lanes[j]], -j))
    takers = [k for k in line for _ in range(len(lanes) // workers + (k < more))]
    owners = dict(zip(in_line, takers, strict=True))
    return [owners[j] for j in range(len(lanes))]


def even_counts_in_turn(owners: list[int], workers: int) -> list[int]:
    lacking = [len(owners) // workers + (k < len(owners) % workers) for k in range(workers)]
    evened: list[int | None] = []
    for owner in owners:
        evened.append(owner if lacking[owner] > 0 else None)
        lacking[owner] -= lacking[owner] > 0
    heirs = iter([k for k in range(workers) for _ in range(lacking[k])])
    return [next(heirs) if owner is None else owner for owner in evened]


def equal_at(balance: str | int) -> int | None:
    """A of the page; None where the cost is the samples."""
    if isinstance(balance, int):
        return balance
    return {"samples": None, "attention": 24_576}[balance]


def cost(size: int, balance: str | int) -> int:
    a = equal_at(balance)
    return size if a is None else size * (a + size)


def even_costs(owners: list[int], costs: list[int], workers: int) -> list[int]:
    owners = list(owners)
    while True:
        loads = [0] * workers
        for owner, one in zip(owners, costs, strict=True):
            loads[owner] += one
        heavy, light = loads.index(max(loads)), loads.index(min(loads))
        gap = max(loads) - min(loads)
        movable = [j for j, owner in enumerate(owners) if owner == heavy and costs[j] < gap]
        if gap * workers * 64 <= sum(costs) or not movable:
            return owners
        best = min(abs(2 * costs[j] - gap) for j in movable)
        owners[max(j for j in movable if abs(2 * costs[j] - gap) == best)] = light


def deal_costs(costs: list[int], workers: int) -> list[int]:
    """The worker of each row, or of each sequence of a bucket."""
    lacking = [len(costs) // workers + (k < len(costs) % workers) for k in range(workers)]
    loads = [0] * workers
    owners = [0] * len(costs)
    for j in sorted(range(len(costs)), key=lambda j: (-costs[j], j)):
        k = min((k for k in range(workers) if lacking[k]), key=lambda k: (loads[k], k))
        owners[j] = k
        loads[k] += costs[j]
        lacking[k] -= 1
    return owners
