"""What a source holds in memory, beside what it says: `memory_bound`.

Every figure is of a process of its own, which says by how much it grew. Files of 1 and 10 GB
are written only with SWEEPHAND_BENCHMARK_LARGE=1, where TMPDIR says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np

import sweephand as sh

from .corpora import scaled
from .own_process import in_own_process, most_resident, resident

timeout = 3600
Found = dict[tuple[str, int], list[int]]


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


def read_made_chunks(num_threads: int, num_minibatches: int) -> list[int]:
    with sh.MinibatchSource(
        MadeChunks(), randomization_window_in_chunks=16, num_lanes=4, num_threads=num_threads
    ) as source:
        before = resident()
        for _ in range(num_minibatches):
            source.next_minibatch(20)
        return [most_resident() - before, source.memory_bound(20)]


class Run:
    """Minibatches of 20 rows that do not end where blocks do, through a window of 16 chunks."""

    params = (["0", "1, one arena", "1"], [10**3, 10**4, 10**5])
    param_names = ("threads", "minibatches")
    unit = "bytes"

    def measured(self, threads: str, count: int) -> list[int]:
        one_arena = {"MALLOC_ARENA_MAX": "1"} if "arena" in threads else {}
        return in_own_process(read_made_chunks, int(threads[0]), scaled(count), **one_arena)

    def track_grown(self, threads: str, count: int) -> int:
        return self.measured(threads, count)[0]

    def track_stated(self, threads: str, count: int) -> int:
        return self.measured(threads, 1)[1]


# -- files --
LENGTH = 250  # tokens of a sequence
STREAMS = sh.StreamDefs(tokens=sh.StreamDef(dtype="int32"))
CTF_STREAMS = sh.StreamDefs(tokens=sh.StreamDef(field="tokens", shape=LENGTH))


def lists(size: int) -> np.ndarray:
    """Return the lists of one block: files repeat it."""
    shape = (max(1, min(size, 50_000_000) // (4 * LENGTH)), LENGTH)
    return np.random.default_rng(0).integers(0, 50_000, shape)


def repeat_block(path: Path, block: bytes, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(-(-size // len(block))):
            file.write(block)


def write_tokens(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(-(-size // (16 * LENGTH)) * 16 * LENGTH)  # a hole


def write_ctf(path: Path, size: int) -> None:
    lines = (f"|tokens {' '.join(map(str, row))}\n" for row in lists(size).tolist())
    repeat_block(path, "".join(lines).encode(), size)


def write_jsonl(path: Path, size: int) -> None:
    lines = (json.dumps({"tokens": row}) + "\n" for row in lists(size).tolist())
    repeat_block(path, "".join(lines).encode(), size)


def write_tfrecord(path: Path, size: int) -> None:
    sh.tfrecord.write(path, ({"tokens": row} for row in lists(size)))
    repeat_block(path, path.read_bytes(), size)


def write_parquet(path: Path, size: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    values = pa.array(lists(size).astype(np.int32).ravel())
    offsets = np.arange(0, len(values) + 1, LENGTH, dtype=np.int32)
    table = pa.table({"tokens": pa.ListArray.from_arrays(offsets, values)})
    with parquet.ParquetWriter(
        path, table.schema, compression="none", use_dictionary=False
    ) as writer:
        for _ in range(-(-size // values.nbytes)):
            writer.write_table(table, row_group_size=2000)


FORMATS: dict[str, tuple[Callable[[Path, int], None], Callable[[str], sh.Deserializer]]] = {
    "bare tokens": (
        write_tokens,
        lambda path: sh.RawTokensDeserializer(path, "uint16", 8 * LENGTH),
    ),
    "CNTK's text": (write_ctf, lambda path: sh.CTFDeserializer(path, CTF_STREAMS)),
    "TFRecord": (write_tfrecord, lambda path: sh.TFRecordDeserializer(path, STREAMS)),
    "Parquet": (write_parquet, lambda path: sh.ParquetDeserializer(path, STREAMS)),
    "JSON lines": (write_jsonl, lambda path: sh.JSONLDeserializer(path, STREAMS)),
}


def read_file(kind: str, path: str, num_sequences: int) -> list[int]:
    corpus = FORMATS[kind][1](path)
    before = resident()
    with sh.MinibatchSource(
        corpus, num_lanes=8, randomization_window_in_chunks=8, num_threads=1
    ) as source:
        count = source.num_sequences_per_sweep
        size = 1000 * (source.num_samples_per_sweep // count)
        while num_sequences > 0:
            num_sequences -= source.next_minibatch(size).num_sequences
        return [most_resident() - before, source.memory_bound(size), count]


class Files:
    """Half a million shuffled sequences through a window of 8 chunks, by the size of the file.

    Large pieces go back to the system at once; glibc keeps some for loading threads otherwise.
    """

    params = (list(FORMATS), [1, 10])
    param_names = ("format", "GB")
    unit = "bytes"

    def setup_cache(self) -> Found:
        """Measure all here, so that files are written once: index, read, stated, sequences."""
        if not os.environ.get("SWEEPHAND_BENCHMARK_LARGE"):
            return {}
        return {(kind, size): self.measured(kind, size) for kind, size in product(*self.params)}

    setup_cache.timeout = 7200  # type: ignore[attr-defined]

    def measured(self, kind: str, gigabytes: int) -> list[int]:
        path = Path("file")
        FORMATS[kind][0](path, scaled(gigabytes * 10**9))
        allocator = {"MALLOC_MMAP_THRESHOLD_": "1000000"}
        index = in_own_process(read_file, kind, "file", 0, **allocator)
        read = in_own_process(read_file, kind, "file", scaled(500_000), **allocator)
        path.unlink()
        return [index[0], *read]

    def setup(self, found: Found, kind: str, gigabytes: int) -> None:
        if not found:
            raise NotImplementedError("only with SWEEPHAND_BENCHMARK_LARGE=1")
        self.index, self.read, self.stated, self.sequences = found[kind, gigabytes]

    def track_index(self, found: Found, kind: str, gigabytes: int) -> int:
        return self.index

    def track_read(self, found: Found, kind: str, gigabytes: int) -> int:
        return self.read

    def track_stated(self, found: Found, kind: str, gigabytes: int) -> int:
        return self.stated

    def track_sequences(self, found: Found, kind: str, gigabytes: int) -> int:
        return self.sequences
