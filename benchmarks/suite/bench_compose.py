"""Planning of rows and buckets, and packed rows beside the C kernel that writes the same."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent.parent))  # for the package `benchmarks`

from benchmarks import compose_figures as figures
from benchmarks.corpora import make_lengths, make_offsets

import sweephand as sh
from sweephand import _core


class Packing:
    """Rows from lengths alone: ours, what users have, and loops in Python."""

    params = (
        [
            "sweephand, longest first",
            "sweephand, look-ahead 64",
            "sweephand, look-ahead 1,024",
            "sweephand, source.plan with 48 lanes",
            "LightBinPack obfd",
            "first fit in Python",
            "best fit decreasing per 1,000 in Python",
        ],
    )
    param_names = ("packer",)
    timeout = 300

    def setup(self, packer: str) -> None:
        contenders = figures.planning().contenders
        if packer not in contenders:
            raise NotImplementedError(f"{packer} is not installed")
        self.work = contenders[packer]

    def track_million_sequences_per_second(self, packer: str) -> float:
        return self.work()


class PackedRows:
    """Tokens, segments, positions and mask: ours, a C loop, and NumPy by hand."""

    params = (
        [
            "sweephand",
            "C best fit",
            "NumPy by hand, rows given",
            "Grain first fit, 64 open rows",
        ],
    )
    param_names = ("contender",)
    timeout = 300

    def setup(self, contender: str) -> None:
        contenders = figures.packed_rows().contenders
        if contender not in contenders:
            raise NotImplementedError(f"{contender} is not installed")
        self.work = contenders[contender]
        self.work()

    def track_giga_tokens_per_second(self, contender: str) -> float:
        return self.work()


class Fill:
    """Samples over cells; deterministic."""

    timeout = 300

    def track_look_ahead_64(self) -> float:
        sizes = figures.shuffled(make_lengths())
        return figures.fill_of(_core.compose.pack_in_order(sizes, 2048, 64), sizes, 2048)

    def track_source_with_48_lanes(self) -> float:
        return figures.source_fill(figures.shuffled(make_lengths()), 2048, 48)


class Boundaries:
    """Best boundaries of buckets, from lengths on."""

    params = ([8, 16, 64],)
    param_names = ("buckets",)

    def setup(self, buckets: int) -> None:
        offsets = make_offsets(make_lengths())
        tokens = np.zeros(offsets[-1], np.uint8)
        self.corpus = sh.ArrayDeserializer({"t": (tokens, offsets)})

    def time_source_with_automatic_buckets(self, buckets: int) -> None:
        sh.MinibatchSource(self.corpus, layout=sh.Bucketed("auto", buckets), num_threads=0)


class Seek:
    """Placing a source of packed rows, near the begin and near the end of a sweep."""

    params = ([200_000, 2_000_000], [0.01, 0.99])
    param_names = ("sequences", "place")

    def setup(self, count: int, place: float) -> None:
        offsets = make_offsets(make_lengths(count))
        corpus = sh.ArrayDeserializer(
            {"t": (np.zeros(offsets[-1], np.uint8), offsets)}, chunk_size=1000
        )
        self.source = sh.MinibatchSource(
            corpus, layout=sh.Packed(2048), randomization_window_in_chunks=128
        )
        self.time = int(offsets[-1] * place)

    def time_window(self, count: int, place: float) -> None:
        self.source.current_position = self.time
