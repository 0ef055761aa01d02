"""Pages stay small, and are made within a second, whatever a minibatch holds."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from tests.ext.view.pages import read

import sweephand as sh

MILLION = 10**6


def of_many_rows() -> sh.MinibatchSource:
    return sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(MILLION)}))


def of_one_sequence() -> sh.MinibatchSource:
    return sh.MinibatchSource(sh.ArrayDeserializer({"x": [np.arange(MILLION)]}))


def of_short_sequences(layout: sh.Layout) -> Callable[[], sh.MinibatchSource]:
    def make() -> sh.MinibatchSource:
        lengths = np.random.default_rng(0).integers(1, 200, MILLION // 100)
        values = np.random.default_rng(0).integers(97, 123, lengths.sum())
        offsets = np.append(0, np.cumsum(lengths))
        return sh.MinibatchSource(sh.ArrayDeserializer({"x": (values, offsets)}), layout=layout)

    return make


def of_noise() -> sh.MinibatchSource:
    random = np.random.default_rng(0)
    streams = {f"p{n}": random.integers(0, 256, (40, 200, 200, 3), np.uint8) for n in range(30)}
    return sh.MinibatchSource(sh.ArrayDeserializer(streams), max_sweeps=1)


def of_long_texts() -> sh.MinibatchSource:
    found = np.array([b"a" * 10**7, b"\xff" * 10**6] * 20, object)
    return sh.MinibatchSource(sh.ArrayDeserializer({"x": found}), max_sweeps=1)


@pytest.mark.parametrize(
    "make",
    [
        of_many_rows,
        of_one_sequence,
        of_short_sequences(sh.Packed(2048)),
        of_short_sequences(sh.Padded()),
        of_short_sequences(sh.TruncatedBPTT(64)),
        of_noise,
        of_long_texts,
    ],
    ids=["rows", "one", "packed", "padded", "bptt", "noise", "texts"],
)
def test_a_page_is_small_and_soon_there(make: Callable[[], sh.MinibatchSource]) -> None:
    source = make()
    minibatch = source.next_minibatch(MILLION)
    seconds = []
    for _ in range(3):  # the best of some, as the machine has other things to do
        start = time.perf_counter()
        page = minibatch.show(decode=chr)
        html = page.html
        seconds.append(time.perf_counter() - start)
    read(page)
    assert len(html.encode()) < 1_000_000
    assert min(seconds) < 1
