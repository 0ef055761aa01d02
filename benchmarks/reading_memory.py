"""What reading through a window holds in memory, at 1 GB and at 10 GB of data.

``python -m benchmarks.reading_memory [FORMAT...]`` writes files that repeat one block, and
holes for tokens. For each it has two processes: one that opens the corpus and builds its index,
and one that opens it with the index and reads half a million shuffled sequences. It prints by
how much each grew at most, with an allocator that gives large pieces back at once (glibc keeps
some for each thread).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import sweephand as sh

_MB = 10**6
_SIZES = (1000 * _MB, 10_000 * _MB)
_BLOCK = 50 * _MB  # bytes
_TOKENS = 250  # of a sequence
_READ_SEQUENCES = 500_000
_MINIBATCH = 1000  # sequences
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "1000000"}

STREAMS = sh.StreamDefs(tokens=sh.StreamDef(dtype="int32"))


def resident(field: str) -> int:
    """Return memory of this process in bytes: ``VmRSS`` now, ``VmHWM`` at most."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) * 1024


# -- formats --
def lists() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 50_000, (_BLOCK // (4 * _TOKENS), _TOKENS))


def repeat(path: Path, block: bytes, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)


def write_tokens(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def write_ctf(path: Path, size: int) -> None:
    lines = (f"|tokens {' '.join(map(str, row))}\n" for row in lists().tolist())
    repeat(path, "".join(lines).encode(), size)


def write_jsonl(path: Path, size: int) -> None:
    lines = (json.dumps({"tokens": row}) + "\n" for row in lists().tolist())
    repeat(path, "".join(lines).encode(), size)


def write_tfrecord(path: Path, size: int) -> None:
    sh.tfrecord.write(path, ({"tokens": row} for row in lists()))
    repeat(path, path.read_bytes(), size)


def write_parquet(path: Path, size: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    values = lists().astype(np.int32)
    offsets = np.arange(len(values) + 1, dtype=np.int32) * _TOKENS
    table = pa.table({"tokens": pa.ListArray.from_arrays(offsets, values.reshape(-1))})
    with parquet.ParquetWriter(
        path, table.schema, compression="none", use_dictionary=False
    ) as writer:
        for _ in range(size // values.nbytes):
            writer.write_table(table, row_group_size=2000)


def open_ctf(path: str) -> sh.Deserializer:
    return sh.CTFDeserializer(
        path, sh.StreamDefs(tokens=sh.StreamDef(field="tokens", shape=_TOKENS))
    )


FORMATS: dict[str, tuple[Callable[[Path, int], None], Callable[[str], sh.Deserializer]]] = {
    "tokens": (
        write_tokens,
        lambda path: sh.RawTokensDeserializer(path, "uint16", 8 * _TOKENS),
    ),
    "ctf": (write_ctf, open_ctf),
    "jsonl": (write_jsonl, lambda path: sh.JSONLDeserializer(path, STREAMS)),
    "tfrecord": (write_tfrecord, lambda path: sh.TFRecordDeserializer(path, STREAMS)),
    "parquet": (write_parquet, lambda path: sh.ParquetDeserializer(path, STREAMS)),
}


# -- measuring --
def measure(name: str, path: str, num_sequences: int) -> None:
    """Open and read; print the most memory, the bound, and how many sequences there are."""
    corpus = FORMATS[name][1](path)
    before = resident("VmRSS")
    with sh.MinibatchSource(
        corpus, num_lanes=8, randomization_window_in_chunks=8, num_threads=1
    ) as source:
        count = source.num_sequences_per_sweep
        size = _MINIBATCH * (source.num_samples_per_sweep // count)
        left = num_sequences
        while left > 0:
            left -= source.next_minibatch(size).num_sequences
        print(resident("VmHWM") - before, source.memory_bound(size), count)


def child(name: str, path: Path, num_sequences: int) -> list[int]:
    command = [sys.executable, "-m", "benchmarks.reading_memory", name, path, num_sequences]
    told = subprocess.run(
        list(map(str, command)),
        env={**os.environ, **_ALLOCATOR},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [int(word) for word in told.stdout.split()]


def main() -> None:
    """Print the figures of both sizes."""
    if len(sys.argv) == 4 and sys.argv[3].isdigit():
        measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))
        return
    for name in sys.argv[1:] or FORMATS:
        for size in _SIZES:
            with TemporaryDirectory() as folder:
                path = Path(folder) / f"x.{name}"
                FORMATS[name][0](path, size)
                begin = time.perf_counter()
                built, _, count = child(name, path, 0)
                took = time.perf_counter() - begin
                grown, bound, _ = child(name, path, _READ_SEQUENCES)
                print(
                    f"{name}, {size / 1e9:.0f} GB, {count / 1e6:.1f} M sequences: "
                    f"{built / _MB:.0f} MB at most to build the index ({took:.0f} s), "
                    f"{grown / _MB:.0f} MB to read, memory_bound {bound / _MB:.0f} MB",
                    flush=True,
                )


if __name__ == "__main__":
    main()
