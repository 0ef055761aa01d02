"""Law 20: a loan ends once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests import extent
from tests.loans.simulator import Line, Simulation
from tests.model import ModelCorpus
from tests.sources import Chunks

import sweephand as sh

SIZES = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3)


def sequences(sizes: tuple[int, ...] = SIZES, first: int = 0) -> sh.ArrayDeserializer:
    data = [np.arange(n) + 100 * i + first for i, n in enumerate(sizes)]
    return sh.ArrayDeserializer({"x": data}, name=f"data{first}")


def drawn(sequence: Any, key: sh.Key) -> Any:
    return {"x": sequence["x"] + key.integer(10**9)}


def is_long(sequence: Any) -> bool:
    return len(sequence["x"]) > 1


def mixed() -> sh.Mixture:
    return sh.Mixture({"a": sequences(), "b": sequences((7, 2, 1), 7000)}, {"a": 1, "b": 2})


def source(corpus: Any, **options: Any) -> sh.MinibatchSource:
    options = {"max_sweeps": 2} | options
    return sh.MinibatchSource(
        corpus, num_threads=0, num_map_workers=0, randomization_seed=3, **options
    )


KINDS: dict[str, Callable[[], sh.MinibatchSource]] = {
    "arrays": lambda: source(sequences()),
    "padded": lambda: source(sequences(), layout=sh.Padded()),
    "frames": lambda: source(sequences((2, 3, 1)), layout=sh.Frames()),
    "unshuffled": lambda: source(sequences(), randomize=False),
    "a limit": lambda: source(sequences(), max_samples=50, max_sweeps=2**64 - 1),
    "a random map": lambda: source(sequences().map(drawn, name="draw", random=True)),
    "a filter": lambda: source(sequences().filter(is_long, name="long")),
    "a mixture": lambda: source(mixed(), max_sweeps=2**64 - 1, max_samples=120),
    "a mixture of maps": lambda: source(
        sh.Mixture(
            {
                "a": sequences().map(drawn, name="draw", random=True),
                "b": sequences((4, 2), 7000),
            },
            {"a": 1, "b": 3},
        ),
        max_sweeps=2**64 - 1,
        max_samples=120,
    ),
    "chunks": lambda: source(
        Chunks(ModelCorpus.of([[3, 1], [2, 2, 5], [], [1, 4]]), told=True),
        randomization_window_in_chunks=1,
        num_lanes=2,
    ),
    "skips": lambda: source(
        sequences(), events=[sh.events.Skip(at=5, stop=15), sh.events.Skip(at=70, stop=78)]
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_copy_is_trained_once_in_whatever_order_loans_end(kind: str) -> None:
    count = 90_000 if extent.exhaustive else 72
    with KINDS[kind]() as served, KINDS[kind]() as plain:
        line = Line.of(plain)
        for seed in range(count):
            Simulation(served, line, seed).run(seed % 24)


@pytest.mark.parametrize("kind", ["arrays", "a mixture", "chunks"])
def test_a_banned_sequence_is_trained_no_more(kind: str) -> None:
    with KINDS[kind]() as plain:
        line = Line.of(plain)
    for seed in range(3000 if extent.exhaustive else 24):
        with KINDS[kind]() as served:
            Simulation(served, line, seed, may_ban=True).run(seed % 24)
