"""Token files beside arrays, Parquet beside pyarrow, and how long it takes to open and resume.

``python -m benchmarks.reading_files`` prints all figures once.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks.reading import best_seconds

import sweephand as sh
from sweephand.tfds.read_order import ReadOrder

_TOKENS = 1 << 25
_MINIBATCH = 1 << 16


def drain(corpus: sh.Deserializer, **options: Any) -> Callable[[], object]:
    """Return the work of one sweep in the caller's thread."""

    def run() -> None:
        with sh.MinibatchSource(corpus, max_sweeps=1, num_threads=0, **options) as source:
            for _ in source.minibatches(_MINIBATCH):
                pass

    return run


def tokens(folder: Path) -> None:
    """Shuffled sequences of cached token files, as a ratio to the same in arrays."""
    values = np.random.default_rng(0).integers(0, 60_000, _TOKENS, dtype=np.uint16)
    values.tofile(folder / "x.bin")
    for length in (128, 1024, 4096):
        arrays = sh.ArrayDeserializer({"tokens": (values, np.arange(0, _TOKENS + 1, length))})
        corpus, mapped = (
            sh.RawTokensDeserializer(folder / "x.bin", "uint16", length, mapped=mapped)
            for mapped in (False, True)
        )
        ways = {
            "read one by one": drain(corpus),
            "read in a window of 4 chunks": drain(corpus, randomization_window_in_chunks=4),
            "mapped": drain(mapped),
        }
        wanted = best_seconds(drain(arrays))
        for how, work in ways.items():
            ratio = wanted / best_seconds(work)
            print(f"sequences of {length} tokens, {how}: {ratio:.2f} of arrays in memory")


def parquet(folder: Path) -> None:
    """Token lists and a label, as a ratio to pyarrow reading the same row groups."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    random = np.random.default_rng(0)
    offsets = np.append(0, np.cumsum(random.integers(50, 500, 100_000))).astype(np.int32)
    values = pa.array(random.integers(0, 32_000, offsets[-1], dtype=np.int32))
    lists = pa.ListArray.from_arrays(pa.array(offsets), values)
    path = folder / "x.parquet"
    pq.write_table(pa.table({"tokens": lists, "label": offsets[1:]}), path, row_group_size=4000)

    def alone() -> None:
        file = pq.ParquetFile(path, pre_buffer=True)
        for group in range(file.num_row_groups):
            file.read_row_group(group)

    streams = sh.StreamDefs(
        tokens=sh.StreamDef(dtype="int32", defines_mb_size=True), label=sh.StreamDef()
    )
    corpus = sh.ParquetDeserializer(path, streams)
    ratio = best_seconds(alone) / best_seconds(drain(corpus, randomize=False))
    print(f"Parquet, whole minibatches: {ratio:.2f} of pyarrow reading row groups alone")


def opening(folder: Path) -> None:
    """A thousand shards, with their index."""
    for shard in range(1000):
        prefix = folder / f"p-{shard:04}"
        lengths = np.full(20, 25, "<i4")
        begins = 50 * np.arange(20, dtype="<i8")
        head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 20, 21)
        bounds = np.arange(21, dtype="<i8")
        content = head + lengths.tobytes() + begins.tobytes() + bounds.tobytes()
        prefix.with_suffix(".idx").write_bytes(content)
        np.zeros(500, np.uint16).tofile(prefix.with_suffix(".bin"))
        (folder / f"p-{shard:04}.jsonl").write_text('{"tokens": [1, 2, 3]}\n' * 20)
    lines = sh.StreamDefs(tokens=sh.StreamDef())
    makers: dict[str, Callable[[], sh.Deserializer]] = {
        "Megatron pairs": lambda: sh.MegatronDeserializer(str(folder / "p-*")),
        "JSON lines": lambda: sh.JSONLDeserializer(str(folder / "p-*.jsonl"), lines),
    }
    for name, make in makers.items():
        sh.MinibatchSource(make()).close()  # builds the index
        took = best_seconds(
            lambda make=make: sh.MinibatchSource(make()).close(), clock=time.perf_counter
        )
        print(f"opening 1,000 {name}: {took * 1e3:.0f} ms")


def resuming() -> None:
    """A place in the order of a TFDS pass over 100 million examples in 1,024 shards."""
    takes = np.random.default_rng(0).integers(90_000, 110_000, 1024).tolist()
    rows = [sh.tfds.FileInstruction(f"/d/x-{n}", 0, take, take) for n, take in enumerate(takes)]
    for percent in (1, 99):

        def go(percent: int = percent) -> None:
            config = sh.tfds.ReadConfig(shuffle_seed=3)
            order = ReadOrder(rows, config, shuffle_files=True)
            order.take(len(order) * percent // 100, 64)

        took = best_seconds(go, clock=time.perf_counter)
        print(f"the order at {percent} % of {sum(takes) / 1e6:.0f} M: {took * 1e3:.1f} ms")


def main() -> None:
    """Print all figures."""
    with TemporaryDirectory() as folder:
        tokens(Path(folder))
        parquet(Path(folder))
        opening(Path(folder))
    resuming()


if __name__ == "__main__":
    main()
