"""What maps cost beside what their functions take."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from functools import cache
from itertools import count
from threading import Semaphore, Thread
from typing import Any

import numpy as np

import sweephand as sh

from .contest import Found, Row, peer
from .corpora import ROW_MINIBATCH, make_rows, scaled
from .family import with_workers
from .turn import Clock, Steps, Turn

MINIBATCH = 16 * ROW_MINIBATCH
NUM_WORKERS = 2
NUM_RESTING = 8  # threads that rest, and so need no core of their own
STEP, AHEAD = 200, 4  # sequences, and steps that are made ahead
QUICK, SLOW, ONE_OF = 0.001, 0.02, 50  # seconds that a sequence takes, and how many are slow


def do_nothing(sequence: dict[str, Any]) -> dict[str, Any]:
    return sequence


def rows_of(**options: Any) -> Steps:
    """Take minibatches of rows and labels through a map that does nothing."""
    batched = options.pop("batched", None)
    corpus = sh.ArrayDeserializer(make_rows()._asdict())
    if batched is not None:
        corpus = corpus.map(do_nothing, batched=batched)
    for minibatch in sh.MinibatchSource(corpus, **options).minibatches(MINIBATCH):
        yield len(minibatch["rows"].values)


class Nothing(Row):
    """A map that does nothing, over rows of 64 float32 with a label, 4,096 at a time."""

    contenders = {
        "no map": rows_of,
        "batched": lambda: rows_of(batched=True, num_map_workers=NUM_WORKERS),
        "one by one": lambda: rows_of(batched=False, num_map_workers=NUM_WORKERS),
        "one by one, processes": lambda: rows_of(
            batched=False, num_map_workers=NUM_WORKERS, map_executor="processes"
        ),
    }
    unit, per = "µs", 1e-6

    def setup_cache(self) -> Found:
        return self.compete()


SCALE = np.linspace(0.5, 1.5, 64, dtype=np.float32)
SPINS = 39_000  # which take about 0.6 ms


def quick(sequence: dict[str, Any]) -> dict[str, Any]:
    """Take about 5 to 10 µs, all with the GIL."""
    row = sequence["rows"] * SCALE
    row = row - row.mean()
    return {**sequence, "rows": np.tanh(np.sqrt(np.abs(row)))}


def quick_ones(sequences: dict[str, Any]) -> dict[str, Any]:
    """Do the same for a batch."""
    return {**sequences, "rows": [quick({"rows": row})["rows"] for row in sequences["rows"]]}


def hold(sequence: dict[str, Any]) -> dict[str, Any]:
    """Hold the GIL for long."""
    total = 0
    for number in range(scaled(SPINS)):
        total += number
    return {**sequence, "rows": sequence["rows"] + total}


def alone(function: Any) -> Steps:
    """Call a function, and do nothing with what it returns."""
    rows, labels = make_rows()
    while True:
        for at in range(ROW_MINIBATCH):
            function({"rows": rows[at : at + 1], "labels": labels[at : at + 1]})
        yield ROW_MINIBATCH


def mapped(function: Any, **options: Any) -> Steps:
    """Take minibatches of rows that a function has mapped."""
    batched = function is quick_ones
    corpus = sh.ArrayDeserializer(make_rows()._asdict()).map(function, batched=batched)
    for minibatch in sh.MinibatchSource(corpus, **options).minibatches(ROW_MINIBATCH):
        yield len(minibatch["rows"].values)


class Quick(Row):
    """A map of some microseconds over rows of 64 float32 with a label, 256 at a time."""

    contenders = {
        "the function alone": lambda: alone(quick),
        "default": lambda: mapped(quick),
        "inline": lambda: mapped(quick, num_threads=0, num_map_workers=0),
        "batched": lambda: mapped(quick_ones),
        "torch DataLoader": peer("torch_loaders.quick_map"),
    }
    unit = "sequences/s"

    def setup_cache(self) -> Found:
        return self.compete()


def hold_long(sequence: dict[str, Any]) -> dict[str, Any]:
    """Hold the GIL for about 10 ms."""
    for _ in range(16):
        found = hold(sequence)
    return found


BYTES = bytes(200_000)  # whose digest takes about 0.15 ms


def digest(sequence: dict[str, Any]) -> dict[str, Any]:
    """Work without the GIL, as decoders do."""
    found = hashlib.sha256(BYTES).digest()
    return {**sequence, "rows": sequence["rows"] + found[0]}


@cache
def make_texts() -> list[str]:
    """Return texts of 300 words, of 5,000 words in all, the frequent ones short."""
    rng = np.random.default_rng(0)
    words = ["".join(map(chr, rng.integers(97, 123, 2 + n // 600))) for n in range(5000)]
    ranks = np.minimum(rng.zipf(1.2, (scaled(4000), 300)) - 1, len(words) - 1)
    return [" ".join(words[n] for n in text) for text in ranks.tolist()]


@cache
def make_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=2000, show_progress=False)
    tokenizer.train_from_iterator(make_texts()[:500], trainer)
    return tokenizer


def tokenize(sequence: dict[str, Any]) -> dict[str, Any]:
    """Return the ids of the tokens of a text, about 400."""
    return {
        "ids": np.array(make_tokenizer().encode(sequence["text"][0].decode()).ids, np.int32)
    }


def tokenized(**options: Any) -> Steps:
    """Take minibatches of texts that are made tokens one by one, counted in tokens."""
    corpus = sh.ArrayDeserializer({"text": make_texts()})
    corpus = corpus.map(tokenize, size="measured")
    for minibatch in sh.MinibatchSource(corpus, **options).minibatches(TOKENS):
        yield len(minibatch["ids"].values)


TOKENS = 16_384


class Kept(Row):
    """A map with two workers by default options, and the time of all processes."""

    unit = "sequences/s"

    def __init_subclass__(cls, function: Any = None, peer_of: str = "") -> None:
        if function is not None:
            cls.contenders = {
                "default": lambda: with_workers(mapped(function)),
                "processes": lambda: with_workers(mapped(function, map_executor="processes")),
                "torch DataLoader, two workers": peer(f"torch_loaders.{peer_of}"),
            }
        super().__init_subclass__()


class Shortest(Kept, function=quick, peer_of="quick_in_workers"):
    """Of 10 µs, with the GIL; 256 at a time, as in all of these."""

    def setup_cache(self) -> Found:
        return self.compete()


class Released(Kept, function=digest, peer_of="digest_map"):
    """Of 0.15 ms without the GIL."""

    def setup_cache(self) -> Found:
        return self.compete()


class Held(Kept, function=hold, peer_of="held_map"):
    """Of 0.6 ms that holds the GIL."""

    def setup_cache(self) -> Found:
        return self.compete()


class HeldLong(Kept, function=hold_long, peer_of="long_map"):
    """Of 10 ms that holds the GIL."""

    def setup_cache(self) -> Found:
        return self.compete()


class Tokenized(Row):
    """A tokenizer, text by text, with two workers."""

    contenders = {
        "default": lambda: with_workers(tokenized()),
        "processes": lambda: with_workers(tokenized(map_executor="processes")),
        "torch DataLoader, two workers": peer("torch_loaders.tokenized"),
    }
    unit, per = "M tokens/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


def rest(sequence: dict[str, Any]) -> dict[str, Any]:
    """Wait, as for a store: longer for one of 50."""
    time.sleep(SLOW if int(sequence["x"][0]) % ONE_OF == 0 else QUICK)
    return sequence


def on_the_wall(steps: Iterator[int]) -> Steps:
    """Measure by the clock on the wall alone: who rests needs no processor.

    What was made in the pause before is taken first.
    """
    yield next(steps)
    while True:
        for _ in range(AHEAD):
            next(steps)
        clock = Clock()
        with clock.running():
            done = sum(next(steps) for _ in range(2 * AHEAD))
        yield Turn(done, clock.wall, clock.wall)


def in_order() -> Iterator[int]:
    corpus = sh.ArrayDeserializer({"x": np.arange(1000)}).map(rest)
    source = sh.MinibatchSource(corpus, num_map_workers=NUM_RESTING, prefetch=AHEAD)
    source.next_minibatch(1000)  # from the second sweep on it is known what is slow
    for minibatch in source.minibatches(STEP):
        yield minibatch.num_samples


def as_they_come() -> Iterator[int]:
    """Map the same by as many threads, each of which takes the next when it is ready."""
    order = np.random.default_rng(0).permutation(1000)
    begun, wanted, done = count(), Semaphore(AHEAD * STEP), Semaphore(0)

    def work() -> None:
        while wanted.acquire():
            rest({"x": order[[next(begun) % len(order)]]})
            done.release()

    for _ in range(NUM_RESTING):
        Thread(target=work, daemon=True).start()
    while True:
        for _ in range(STEP):
            done.acquire()
        wanted.release(STEP)
        yield STEP


class Slow(Row):
    """A map that takes 1 ms, and 20 ms for one sequence of 50, in eight threads."""

    contenders = {
        "in order": lambda: on_the_wall(in_order()),
        "order given up": lambda: on_the_wall(as_they_come()),
    }
    unit = "sequences/s"

    def setup_cache(self) -> Found:
        return self.compete()
