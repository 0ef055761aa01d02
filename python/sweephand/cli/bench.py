"""Measure how fast minibatches come, beside the machine's memcpy in the same run.

for example:
  sweephand bench train.npz
  sweephand bench tokens.npz --size 16384 --threads 2 --layout padded
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from sweephand.cli.options import (
    add_corpus,
    add_layout,
    add_order,
    add_size,
    make_source,
    minibatch_size,
    open_corpus,
    option,
    whole,
)
from sweephand.cli.screen import Screen, in_bytes, in_count
from sweephand.layouts.base import layout_of_length
from sweephand.source.limits import INFINITELY_REPEAT

_ROUNDS = 7
_COPIED_BYTES = 64 << 20  # beyond the caches
_SIZE = 8192  # samples that rows are made for, if no size is given


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)
    add_size(parser)
    add_order(parser)
    add_layout(parser, "ragged", "ragged by default")
    option(parser, "--threads N", whole, "half of the cores by default")
    option(parser, "--seconds S", float, f"of each of {_ROUNDS} rounds, 0.5 by default", 0.5)


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    original = np.ones(_COPIED_BYTES, np.uint8)
    copy = np.zeros_like(original)
    rounds = []
    begin = time.perf_counter()
    with make_source(
        open_corpus(arguments),
        arguments,
        max_sweeps=INFINITELY_REPEAT,
        layout=layout_of_length(arguments.layout, None, arguments.size or _SIZE),
        num_threads=arguments.threads,
    ) as source:
        size = minibatch_size(arguments, source.timeline)
        source.next_minibatch(size)
        first = time.perf_counter() - begin
        # In turns, under the same load of the machine.
        with screen.progress("measure", _ROUNDS) as advance:
            for _ in range(_ROUNDS):
                before = source.stats()
                _, elapsed = _repeat(lambda: source.next_minibatch(size), arguments.seconds)
                after = source.stats()
                copies, copying = _repeat(
                    lambda: np.copyto(copy, original), arguments.seconds / 2
                )
                samples = (after["samples"] - before["samples"]) / elapsed
                made = (after["bytes_assembled"] - before["bytes_assembled"]) / elapsed
                copied = copies * _COPIED_BYTES / copying
                rounds.append((samples, made, copied, made / copied))
                advance(1, f"{samples:,.0f} samples/s")
    figures = {
        name: {"median": float(np.median(column)), "min": min(column), "max": max(column)}
        for name, column in zip(_SHOWN, zip(*rounds, strict=True), strict=True)
    }
    screen.facts(
        {
            "minibatch": f"{in_count(size)} samples, {arguments.layout}",
            "first one": f"{first:.3g} s after opening began",
        }
    )
    screen.text()
    rows = [
        (words, *(in_words(figures[name][which]) for which in ("median", "min", "max")))
        for name, (words, in_words) in _SHOWN.items()
    ]
    screen.table(["", "median", "min", "max"], rows)
    facts = {"size": size, "layout": arguments.layout, "first_minibatch_seconds": first}
    return facts | figures


def _repeat(work: Callable[[], object], wanted_seconds: float) -> tuple[int, float]:
    """Return how often work was done in about `wanted_seconds`, and how long it took."""
    number, begin = 0, time.perf_counter()
    while True:
        work()
        number += 1
        elapsed = time.perf_counter() - begin
        if not elapsed < wanted_seconds:  # a NaN is no time to wait for
            return number, elapsed


def _bytes_rate(number: float) -> str:
    return f"{in_bytes(number)}/s"


_SHOWN: dict[str, tuple[str, Callable[[float], str]]] = {
    "samples_per_second": ("samples/s", "{:,.0f}".format),
    "bytes_per_second": ("bytes", _bytes_rate),
    "memcpy_bytes_per_second": ("memcpy, one thread", _bytes_rate),
    "ratio_to_memcpy": ("bytes over memcpy", "{:.2f}".format),
}
