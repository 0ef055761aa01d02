"""What a source holds in memory: what it says, however long it runs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
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


STORE = """
import tempfile
import threading
import fsspec
from sweephand.deserializers import tfrecord_files
from sweephand.deserializers.units import line_units
from sweephand.corpus import chunks

class Slow(fsspec.AbstractFileSystem):  # one object of 500 records of 64 KiB
    protocol = "slow"

    def info(self, path, **options):
        return {"name": path, "size": len(RECORDS), "type": "file", "etag": "1"}

    def cat_file(self, path, start=None, end=None, **options):
        return bytes(memoryview(RECORDS)[start:end])

fsspec.register_implementation("slow", Slow)
with tempfile.NamedTemporaryFile() as file:
    sh.tfrecord.write(file.name, [{"x": np.full(16384, n, np.float32)} for n in range(500)])
    with open(file.name, "rb") as written:
        RECORDS = written.read()
chunks.CHUNK_BYTES = 2 << 20  # 32 records
line_units.UNIT_BYTES = len(RECORDS) // 500 * 32
corpus = sh.TFRecordDeserializer("slow://part", sh.StreamDefs(x=sh.StreamDef(shape=16384)))
source = sh.MinibatchSource(corpus, randomization_window_in_chunks=16, num_lanes=16)
assert len(source.timeline.corpus.chunk_sequences) == 16

decode, all_at_once = tfrecord_files.decode_examples, threading.Barrier(16, timeout=60)

def decode_at_once(fields, records, **options):  # answers are held while all are decoded
    found = decode(fields, records, **options)
    all_at_once.wait()
    return found

tfrecord_files.decode_examples = decode_at_once
before = resident()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak begins again
source.next_minibatch(64)
with open("/proc/self/status") as file:
    peak = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))
print(before, peak, source.memory_bound(64))
"""


@unmeasured
def test_answers_of_a_store_that_are_under_way_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path))
    told(STORE)  # builds the index: the memory for it would serve again
    # How many answers are under way at a time is chance: one of some runs comes near the bound.
    used = []
    while len(used) < 6 and max(used, default=0.0) <= 0.7:
        before, peak, bound = told(STORE)
        used.append((peak - before) / bound)
    assert 0.7 < max(used) < 1.0


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


def test_the_bound_of_padded_rows_counts_the_gaps() -> None:
    lengths = np.array([10] * 99 + [100])
    corpus = sh.ArrayDeserializer(
        {"x": (np.zeros(lengths.sum(), np.uint8), np.cumsum([0, *lengths]))}
    )
    with (
        sh.MinibatchSource(corpus) as ragged,
        sh.MinibatchSource(corpus, layout=sh.Padded(multiple_of=64)) as padded,
    ):
        assert padded.memory_bound(400) > 10 * ragged.memory_bound(400)


def test_the_bound_of_ragged_minibatches_loads_nothing() -> None:
    class Unsized(Chunks):
        def sequence_lengths(self, chunk_id: int) -> object:
            return None

    chunks = Unsized(ModelCorpus.of([[1, 2, 3], [4, 5]]), told=True)
    with sh.MinibatchSource(chunks, memory_limit=10**9) as source:
        before = len(chunks.loads)
        assert source.memory_bound(4) > 0
        assert len(chunks.loads) == before


def test_a_join_loads_as_many_chunks_at_a_time_as_its_busiest_member(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    sh.tfrecord.write(path, [{"x": [n]} for n in range(3)])
    records = sh.TFRecordDeserializer(path, sh.StreamDefs(x=sh.StreamDef()))
    arrays = sh.ArrayDeserializer({"y": np.arange(3)})
    loads = [
        sh.MinibatchSource(members).timeline.corpus.stored_loads
        for members in (arrays, records, [arrays, records])
    ]
    assert loads == [0, 2, 2]
