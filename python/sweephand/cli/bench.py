"""Measure how fast minibatches come, beside the machine's memcpy in the same run.

for example:
  sweephand bench train.npz
  sweephand bench tokens.npz --size 16384 --threads 2 --layout padded
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweephand.cli.options import (
    add_corpus,
    add_layout,
    add_order,
    add_size,
    count,
    make_source,
    minibatch_size,
    open_corpus,
    option,
    seconds,
    whole,
)
from sweephand.layouts.by_name import layout_of_length
from sweephand.source.limits import INFINITELY_REPEAT
from sweephand.source.source import MinibatchSource
from sweephand.terminal.numbers import in_bytes, in_count, in_rate, in_seconds
from sweephand.terminal.screen import Screen

_COPIED_BYTES = 64 << 20  # beyond the caches
_SIZE = 8192  # samples that rows are made for, if no size is given


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)
    add_size(parser)
    add_order(parser)
    add_layout(parser, "ragged", "ragged by default")
    option(parser, "--threads N", whole, "half of the cores by default")
    option(parser, "--prefetch N", whole, "2 by default", 2)
    option(parser, "--rounds N", count, "7 by default", 7)
    option(parser, "--seconds S", seconds, "of a round, 0.5 by default", 0.5)


@dataclass(frozen=True)
class _Round:
    """Figures of one round, per second."""

    samples: float
    source_bytes: float
    memcpy_bytes: float

    @property
    def ratio(self) -> float:
        """Bytes of the source over those of memcpy."""
        return self.source_bytes / self.memcpy_bytes


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    begin = time.perf_counter()
    with make_source(
        open_corpus(arguments),
        arguments,
        max_sweeps=INFINITELY_REPEAT,
        layout=layout_of_length(arguments.layout, None, arguments.size or _SIZE),
        num_threads=arguments.threads,
        prefetch=arguments.prefetch,
    ) as source:
        size = minibatch_size(arguments, source.timeline)
        source.next_minibatch(size)
        first = time.perf_counter() - begin
        resumes = [_resume_seconds(source, size) for _ in range(arguments.rounds)]
        rounds = _measure(source, size, arguments, screen)
    facts: dict[str, Any] = {
        "size": size,
        "layout": arguments.layout,
        "samples_per_second": _spread([round.samples for round in rounds]),
        "bytes_per_second": _spread([round.source_bytes for round in rounds]),
        "memcpy_bytes_per_second": _spread([round.memcpy_bytes for round in rounds]),
        "ratio_to_memcpy": _spread([round.ratio for round in rounds]),
        "first_minibatch_seconds": first,
        "resume_seconds": _spread(resumes),
    }
    _show(facts, screen)
    return facts


def _resume_seconds(source: MinibatchSource, size: int) -> float:
    """Return how long it takes from restoring a state at 80 % of a sweep to its minibatch."""
    source.current_position = source.num_samples_per_sweep * 4 // 5
    state = source.get_checkpoint_state()
    source.current_position = 0
    source.next_minibatch(size)
    begin = time.perf_counter()
    source.restore_from_checkpoint(state)
    source.next_minibatch(size)
    return time.perf_counter() - begin


def _measure(
    source: MinibatchSource, size: int, arguments: argparse.Namespace, screen: Screen
) -> list[_Round]:
    """Measure source and memcpy in turn, under the same load of the machine."""
    original = np.ones(_COPIED_BYTES, np.uint8)
    copy = np.zeros_like(original)
    rounds = []
    with screen.progress("measure", arguments.rounds) as advance:
        for _ in range(arguments.rounds):
            before = source.stats()
            _, elapsed = _repeat(lambda: source.next_minibatch(size), arguments.seconds)
            after = source.stats()
            copies, copy_seconds = _repeat(
                lambda: np.copyto(copy, original), arguments.seconds / 2
            )
            rounds.append(
                _Round(
                    (after["samples"] - before["samples"]) / elapsed,
                    (after["bytes_assembled"] - before["bytes_assembled"]) / elapsed,
                    copies * _COPIED_BYTES / copy_seconds,
                )
            )
            advance(1, f"{in_rate(rounds[-1].samples)} samples/s")
    return rounds


def _repeat(work: Callable[[], object], wanted_seconds: float) -> tuple[int, float]:
    """Return how often work was done in about `wanted_seconds`, and how long it took."""
    number, begin = 0, time.perf_counter()
    while True:
        work()
        number += 1
        elapsed = time.perf_counter() - begin
        if elapsed >= wanted_seconds:
            return number, elapsed


def _spread(numbers: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(numbers), "min": min(numbers), "max": max(numbers)}


def _show(facts: dict[str, Any], screen: Screen) -> None:
    screen.facts(
        {
            "minibatch": f"{in_count(facts['size'])} samples, {facts['layout']}",
            "first one": f"{in_seconds(facts['first_minibatch_seconds'])} after opening began",
        }
    )
    screen.text()

    def row(name: str, fact: str, written: Callable[[float], str]) -> tuple[str, ...]:
        return (name, *(written(facts[fact][which]) for which in ("median", "min", "max")))

    def bytes_rate(number: float) -> str:
        return f"{in_bytes(number)}/s"

    screen.table(
        ["", "median", "min", "max"],
        [
            row("samples/s", "samples_per_second", in_rate),
            row("bytes", "bytes_per_second", bytes_rate),
            row("memcpy, one thread", "memcpy_bytes_per_second", bytes_rate),
            row("bytes over memcpy", "ratio_to_memcpy", "{:.2f}".format),
            row("resume at 80 % of a sweep", "resume_seconds", in_seconds),
        ],
    )
