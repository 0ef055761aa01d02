"""Planning alone: which sequences come when, and who gets them. Nothing is read."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

import sweephand as sh
from sweephand.cli.demo import read_functions, standard_library

from .contest import Found, Row
from .corpora import (
    PACKED_ROWS,
    ROW_LENGTH,
    make_lengths,
    make_long_lengths,
    make_short_lengths,
    untouched,
)
from .turn import Clock, Steps

LANES = 4_000_000  # sequences


def plans_of(num_lanes: int) -> Steps:
    """Plan minibatches of 2^18 samples, over chunks of 100 sequences."""
    corpus = untouched(make_short_lengths(LANES, 40), 100)
    for plan in sh.MinibatchSource(corpus, num_lanes=num_lanes).plan(1 << 18):
        yield plan.num_sequences


class Planning(Row):
    """Plans of 2^18 samples over four million sequences of unequal lengths, by lanes."""

    contenders = {
        "48": lambda: plans_of(48),
        "1,024": lambda: plans_of(1024),
        "16,384": lambda: plans_of(16_384),
    }
    unit, per = "M sequences/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


def plans_with_bans(every: int) -> Steps:
    """Plan the same where one of so many sequences is banned; 0: none is."""
    source = sh.MinibatchSource(untouched(make_short_lengths(LANES, 40), 100))
    if every:
        source.events.ban(source.sequence_ids(0, source.num_samples_per_sweep)[::every])
    for plan in source.plan(1 << 18):
        yield plan.num_sequences + len(plan.banned_ids)


class Bans(Row):
    """Plans of four million sequences of which a thousand or a million are banned."""

    contenders = {
        "none": lambda: plans_with_bans(0),
        "1,000": lambda: plans_with_bans(LANES // 1000),
        "1,000,000": lambda: plans_with_bans(4),
    }
    unit, per = "M sequences/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


def plans_of_mixture(count: int, *, anneals: bool = False) -> Steps:
    """Plan a mixture of so many corpora, of four million sequences together."""
    lengths = make_short_lengths(LANES, 40)
    corpora = {f"{number}": untouched(lengths[number::count], 100) for number in range(count)}
    weights = {name: 1 + int(name) % 7 for name in corpora}
    given = [(0, weights), (1 << 30, dict.fromkeys(weights, 1))] if anneals else weights
    for plan in sh.MinibatchSource(sh.Mixture(corpora, weights=given)).plan(1 << 18):
        yield plan.num_sequences


class Mixtures(Row):
    """Plans of 2^18 samples of mixtures, by corpora; four million unequal sequences."""

    contenders = {
        "3": lambda: plans_of_mixture(3),
        "3, annealing": lambda: plans_of_mixture(3, anneals=True),
        "64": lambda: plans_of_mixture(64),
        "64, annealing": lambda: plans_of_mixture(64, anneals=True),
    }
    unit, per = "M sequences/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


def balance() -> Steps:
    """Take minibatches of 4 M samples as the first of 1,024 workers."""
    corpus = untouched(make_short_lengths(LANES, 40))
    source = sh.MinibatchSource(corpus, balance="samples", num_lanes=1024, num_threads=0)
    while True:
        clock = Clock()
        with clock.running():
            source.next_minibatch(4_000_000, num_data_partitions=1024, partition_index=0)
        yield clock.turn()


class Balance(Row):
    """Minibatches of 4 M samples, evened over 1,024 workers."""

    contenders = {"sweephand": balance}
    unit, per = "ms", 1e-3

    def setup_cache(self) -> Found:
        return self.compete()


def micro_batches(row_length: int, workers: int) -> Steps:
    """Take minibatches of 4 M samples as the first rank of the first worker."""
    corpus = untouched(make_long_lengths(row_length))
    layout = sh.Packed(row_length, micro_batch_rows=1)
    source = sh.MinibatchSource(corpus, layout=layout, balance="attention", num_threads=0)
    while True:
        clock = Clock()
        with clock.running():
            share = source.next_minibatch(
                4_000_000, num_data_partitions=workers, partition_index=0
            )
            _ = share.micro_batches()
        yield clock.turn()


class MicroBatches(Row):
    """Minibatches of 4 M samples, with the micro-batches of a worker."""

    contenders = {
        "rows of 8,192, 128 workers": lambda: micro_batches(8192, 128),
        "rows of 131,072, 8 workers": lambda: micro_batches(1 << 17, 8),
    }
    unit, per = "ms", 1e-3

    def setup_cache(self) -> Found:
        return self.compete()


def prompts() -> sh.MinibatchSource:
    """Return a source of a million prompts of 32 tokens."""
    tokens = np.arange(32_000_000, dtype=np.int32).reshape(-1, 32)
    return sh.MinibatchSource(sh.ArrayDeserializer({"prompt": list(tokens)}))


def lent(copies: int) -> Steps:
    """Take 64 prompts, whose copies have all ended when eight more loans are out."""
    desk = prompts().lend(copies)
    out = [desk.take(64) for _ in range(8)]
    while True:
        out.append(desk.take(64))
        desk.done(out.pop(0).tickets)
        yield 64


def served() -> Steps:
    for minibatch in prompts().minibatches(64 * 32):
        yield minibatch.num_sequences


class Loans(Row):
    """Prompts on loan, 64 at a time, beside minibatches of 64; sequences are served too."""

    contenders = {"8 copies": lambda: lent(8), "1 copy": lambda: lent(1), "no loans": served}
    unit, per = "k prompts/s", 1e3

    def setup_cache(self) -> Found:
        return self.compete()


def packs(look_ahead: int = 64) -> Steps:
    layout = sh.Packed(ROW_LENGTH, look_ahead=look_ahead)
    source = sh.MinibatchSource(untouched(make_lengths()), layout=layout)
    for plan in source.plan(PACKED_ROWS * ROW_LENGTH):
        yield plan.num_sequences


class Packing(Row):
    """Rows of 2,048 from lengths alone."""

    contenders = {"sweephand": packs}
    unit, per = "M sequences/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


@cache
def lengths_of(corpus: str) -> NDArray[np.int64]:
    if corpus == "log-normal, rows of 2,048":
        return make_lengths()
    if corpus == "heavy tail, rows of 8,192":  # half below 435, one in a hundred above 7,948
        drawn = np.random.default_rng(0).random(100_000)
        places = [0, 0.01, 0.1, 0.5, 0.9, 0.99, 1]
        lengths = np.interp(drawn, places, np.log([16, 48, 135, 435, 1947, 7948, 8192]))
        return np.rint(np.exp(lengths)).astype(np.int64)
    lengths = np.diff(read_functions(standard_library()).offsets)  # functions, in characters
    whole, rest = np.repeat(4096, int((lengths // 4096).sum())), lengths % 4096
    return np.random.default_rng(2).permutation(np.concatenate([whole, rest[rest > 0]]))


class Fill:
    """Samples over cells of a sweep of packed rows, in per cent; deterministic."""

    params = (
        ["log-normal, rows of 2,048", "heavy tail, rows of 8,192", "functions, rows of 4,096"],
        ["1 lane", "48 lanes"],
    )
    param_names = ("corpus", "lanes")
    unit = "%"

    def track_fill(self, corpus: str, lanes: str) -> float:
        sizes, length = lengths_of(corpus), int(corpus.rpartition(" ")[2].replace(",", ""))
        source = sh.MinibatchSource(
            untouched(sizes),
            layout=sh.Packed(length),
            num_lanes=int(lanes.split()[0]),
            max_sweeps=1,
        )
        rows = sum(plan.shape[0] for plan in source.plan(PACKED_ROWS * length) if plan.shape)
        return 100 * float(sizes.sum()) / (rows * length)
