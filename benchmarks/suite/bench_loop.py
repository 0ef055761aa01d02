"""What a training loop sees: how long a call takes that finds its minibatch ready, and waits.

A step is simulated by arithmetic over 24 MB, so that it drives all else out of the caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from statistics import median
from typing import Any

import numpy as np

import sweephand as sh

from .contest import Found, Row, peer
from .corpora import TOKEN_BUDGET, make_tokens
from .turn import Clock, Steps, Turn

STEP = 0.005  # seconds
_PLACES = count()
_PARTS = np.split(np.ones(6_000_000, np.float32), 100)


def train() -> None:
    """Compute for as long as a step takes."""
    until = Clock.now() + STEP
    while Clock.now() < until:
        part = _PARTS[next(_PLACES) % len(_PARTS)]
        np.multiply(part, np.float32(1), out=part)


def typical(call: Callable[[], object], between: Callable[[], object]) -> Steps:
    """Yield the median of 20 calls: a mean would be that of what else the machine does."""
    yield 0
    while True:
        turns = []
        for _ in range(20):
            between()
            clock = Clock()
            with clock.running():
                call()
            turns.append(clock.turn())
        yield Turn(
            1, median(turn.wall for turn in turns), median(turn.processor for turn in turns)
        )


def calls_of(num_streams: int, *, is_cold: bool) -> Steps:
    """Take minibatches of 16 rows, each after a step of training, or a short wait."""
    data = {f"x{i}": np.arange(65_536, dtype=np.float32) for i in range(num_streams)}
    source = sh.MinibatchSource(sh.ArrayDeserializer(data))

    def call() -> None:
        minibatch = source.next_minibatch(16)
        for name in data:
            _ = minibatch[name].values

    return typical(call, train if is_cold else partial(time.sleep, 2e-4))


def hand_calls_of(num_streams: int) -> Steps:
    data = {f"x{i}": np.arange(65_536, dtype=np.float32) for i in range(num_streams)}
    order = np.random.default_rng(0).permutation(65_536)
    begins = count(0, 16)

    def call() -> None:
        begin = next(begins) % len(order)
        picked = order[begin : begin + 16]
        _ = {name: array[picked] for name, array in data.items()}

    return typical(call, train)


class Call(Row):
    """Minibatches of 16 rows of two streams that are ready."""

    contenders = {
        "after a step of 5 ms": lambda: calls_of(2, is_cold=True),
        "after a wait": lambda: calls_of(2, is_cold=False),
        "NumPy by hand, after a step": lambda: hand_calls_of(2),
    }
    unit, per = "µs", 1e-6

    def setup_cache(self) -> Found:
        return self.compete()


class ManyStreams(Row):
    """Minibatches of 16 rows of 64 streams that are ready."""

    contenders = {
        "after a step of 5 ms": lambda: calls_of(64, is_cold=True),
        "after a wait": lambda: calls_of(64, is_cold=False),
        "NumPy by hand, after a step": lambda: hand_calls_of(64),
    }
    unit, per = "µs", 1e-6

    def setup_cache(self) -> Found:
        return self.compete()


def waits_of(minibatches: Iterator[Any]) -> Steps:
    """Yield waiting as a part of the whole; on the processor, all but the steps."""
    next(minibatches)
    while True:
        whole, waiting = Clock(), Clock()
        own = -time.thread_time()
        with whole.running():
            train()
            own += time.thread_time()
            with waiting.running():
                next(minibatches)
        yield Turn(whole.wall, waiting.wall, whole.processor - own)


def padded_ahead() -> Iterator[Any]:
    corpus = sh.ArrayDeserializer({"tokens": tuple(make_tokens())})
    for minibatch in sh.MinibatchSource(corpus, layout=sh.Padded()).minibatches(TOKEN_BUDGET):
        yield minibatch["tokens"].asarray(), minibatch["tokens"].mask


def asked_by(num_threads: int) -> Steps:
    """Take 400 minibatches in every step, by so many threads together."""
    source = sh.MinibatchSource(sh.ArrayDeserializer({"tokens": tuple(make_tokens())}))

    def ask(times: int) -> int:
        minibatches = (source.next_minibatch(TOKEN_BUDGET)["tokens"] for _ in range(times))
        return sum(len(tokens.values) for tokens in minibatches)

    with ThreadPoolExecutor(num_threads) as threads:
        while True:
            yield sum(threads.map(ask, [400 // num_threads] * num_threads))


class Askers(Row):
    """Threads of Python that ask one source for ragged minibatches of 16,384 tokens."""

    contenders = {
        "one thread": lambda: asked_by(1),
        "two threads": lambda: asked_by(2),
        "eight threads": lambda: asked_by(8),
    }
    unit, per = "M tokens/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


class Waiting(Row):
    """Padded minibatches of 16,384 tokens with their mask, in a loop with steps of 5 ms."""

    contenders = {
        "sweephand": lambda: waits_of(padded_ahead()),
        "torch DataLoader": peer("torch_loaders.waits"),
        "torch DataLoader, two workers": peer("torch_loaders.waits_for_workers"),
    }
    unit, per = "% of the time", 0.01

    def setup_cache(self) -> Found:
        return self.compete()
