"""What a source holds in memory, beside what it says: `memory_bound`."""

from __future__ import annotations

import numpy as np

import sweephand as sh

from .contest import Found, MemoryRow
from .corpora import scaled
from .turn import Steps, Turn


class MadeChunks(sh.UserDeserializer):
    """Chunks that Python code makes, 64 rows of 8 KiB."""

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef())

    def num_chunks(self) -> int:
        return 256

    def chunk_infos(self) -> object:
        return [(64, 64)] * 256

    def get_chunk(self, chunk_id: int) -> dict[str, object]:
        return {"x": np.full((64, 1024), chunk_id, np.float64)}


def open_made_chunks() -> sh.MinibatchSource:
    return sh.MinibatchSource(MadeChunks(), randomization_window_in_chunks=16, num_lanes=4)


def run(num_minibatches: int) -> Steps:
    source = open_made_chunks()
    yield 0
    for _ in range(scaled(num_minibatches)):
        source.next_minibatch(20)
    yield num_minibatches


def state_bound() -> Steps:
    yield 0
    yield Turn(1, 0, 0, open_made_chunks().memory_bound(20))


class Run(MemoryRow):
    """Minibatches of 20 rows that do not end where blocks do, through a window of 16 chunks."""

    contenders = {
        "1,000 minibatches": lambda: run(1000),
        "10,000 minibatches": lambda: run(10_000),
        "as `memory_bound` says": state_bound,
    }
    unit, per, fresh = "µs a minibatch", 1e-6, True

    def setup_cache(self) -> Found:
        return self.compete()
