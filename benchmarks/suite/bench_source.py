"""What a source delivers, beside the machine's limits and NumPy."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent.parent))  # for the package `benchmarks`

from benchmarks import source_figures as figures
from benchmarks.corpora import make_lengths, make_offsets

import sweephand as sh


class Delivery:
    """Rates by contender: C loops, NumPy by hand, and ours."""

    params = (
        ["fixed_rows", "ragged_tokens", "padded_tokens"],
        ["sweephand", "C gather", "NumPy by hand"],
    )
    param_names = ("figure", "contender")
    timeout = 300

    def setup(self, figure: str, contender: str) -> None:
        self.work = getattr(figures, figure)().contenders[contender]
        self.work()

    def time_one_sweep(self, figure: str, contender: str) -> None:
        self.work()


class Call:
    """A call that finds its minibatch ready."""

    def setup(self) -> None:
        self.ours = figures.ready_call().contenders["sweephand"]

    def track_calls_per_second(self) -> float:
        return self.ours()


class Seek:
    """Placing a source, near the begin and near the end of a sweep."""

    params = ([10_000, 200_000, 2_000_000], [0.01, 0.99])
    param_names = ("sequences", "place")

    def setup(self, count: int, place: float) -> None:
        offsets = make_offsets(make_lengths(count))
        corpus = sh.ArrayDeserializer(
            {"t": (np.zeros(offsets[-1], np.uint8), offsets)}, chunk_size=1000
        )
        self.one_block = sh.MinibatchSource(corpus)
        self.windowed = sh.MinibatchSource(corpus, randomization_window_in_chunks=128)
        self.time = int(offsets[-1] * place)

    def time_one_block(self, count: int, place: float) -> None:
        self.one_block.current_position = self.time

    def time_window(self, count: int, place: float) -> None:
        self.windowed.current_position = self.time
