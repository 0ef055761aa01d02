"""What a source holds in memory: what it says, however long it runs."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from tests.model import ModelCorpus
from tests.sanitized import unmeasured
from tests.sources import Chunks

import sweephand as sh

PRELUDE = """
import numpy as np
import sweephand as sh

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

class Large(sh.UserDeserializer):  # chunks of 2 MiB
    def stream_infos(self):
        return sh.StreamDefs(x=sh.StreamDef())

    def num_chunks(self):
        return 256

    def chunk_infos(self):
        return [(64, 64)] * 256

    def get_chunk(self, chunk_id):
        return {"x": np.full((64, 4096), chunk_id, np.float64)}

def run(source, size, count):
    peak = 0
    for _ in range(count):
        minibatch = source.next_minibatch(size)
        peak = max(peak, resident())
    return peak
"""


def told(code: str) -> list[float]:
    """Run code in a process of its own and return the numbers that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [float(word) for word in done.stdout.split()]


@unmeasured
@pytest.mark.parametrize("num_threads", [0, 1])
def test_chunks_and_minibatches_need_what_is_stated(num_threads: int) -> None:
    before, peak, bound = told(f"""
    source = sh.MinibatchSource(
        Large(), randomization_window_in_chunks=16, num_lanes=4, num_threads={num_threads}
    )
    before = resident()
    print(before, run(source, 256, 400), source.memory_bound(256))
    """)
    # Freed chunks stay with the allocator for a while: some of those of one block.
    assert 0.5 * bound < peak - before < 1.1 * bound + 4 * 2**21


@unmeasured
def test_chunks_are_let_go_where_their_blocks_end() -> None:
    held = told("""
    source = sh.MinibatchSource(
        Large(), randomization_window_in_chunks=16, num_lanes=4, num_threads=0
    )
    for _ in range(12):  # the blocks of all lanes end with every fourth minibatch
        source.next_minibatch(256)
        print(source.stats()["bytes_held"] / 2**21)
    """)
    assert held == [16, 16, 16, 0] * 3


@pytest.mark.exhaustive
@unmeasured
def test_memory_does_not_grow_over_many_minibatches() -> None:
    first, last = told("""
    x = np.zeros((4096, 64), np.float32)
    source = sh.MinibatchSource(sh.ArrayDeserializer({"x": x}), num_threads=1)
    run(source, 64, 200)
    print(run(source, 64, 2000))
    print(run(source, 64, 20000))
    """)
    assert last - first < 2**20


def test_the_bound_of_ragged_minibatches_loads_nothing() -> None:
    class Unsized(Chunks):
        def sequence_lengths(self, chunk_id: int) -> object:
            return None

    chunks = Unsized(ModelCorpus.of([[1, 2, 3], [4, 5]]), told=True)
    with sh.MinibatchSource(chunks, memory_limit=10**9) as source:
        before = len(chunks.loads)
        assert source.memory_bound(4) > 0
        assert len(chunks.loads) == before
