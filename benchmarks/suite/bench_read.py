"""Files of every format into columns and minibatches, beside pyarrow, NumPy and plain Python.

Files are in the page cache.
"""

from __future__ import annotations

import io
import json
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
from numpy.typing import NDArray

import sweephand as sh
from sweephand import _core
from sweephand.corpus.ledger import Ledger
from sweephand.tfds.read_order import ReadOrder

from .corpora import one_sweep, scaled, write_examples

timeout = 600
repeat = (1, 4, 2.0)


def load_chunks(corpus: sh.Deserializer, num_threads: int = 1) -> Callable[[], object]:
    """Return the work of loading all chunks: a source puts them into minibatches besides."""
    (reader,) = corpus.open(Ledger()).readers
    chunks = range(len(reader.chunk_sequences))
    if num_threads == 1:
        return lambda: [reader.core.load(chunk) and None for chunk in chunks]
    threads = ThreadPoolExecutor(num_threads)
    return lambda: list(threads.map(lambda chunk: reader.core.load(chunk) and None, chunks))


# -- text --
KINDS = ["dense", "sparse", "one-hot", "JSON"]
DIMENSIONS = {"dense": (40, 1), "sparse": (1600, 10), "one-hot": (943, 129)}


def make_table(kind: str) -> tuple[NDArray[np.float64], str]:
    """Return the numbers of a text in CNTK's format, a line each, and how a line is written.

    Dense: forty numbers with six decimals and a label. Sparse: forty pairs of an index and a
    value, and a one-hot label; three lines a sequence. One-hot: words and their slots, ten.
    """
    rng = np.random.default_rng(0)
    if kind == "one-hot":
        count = scaled(1_300_000)
        pair = rng.integers(0, 943, count), rng.integers(0, 129, count)
        return np.column_stack([np.arange(count) // 10, *pair]), "%d |x %d:1 |y %d:1"
    count = scaled(80_000)
    ids, labels = np.arange(count) // 3, rng.integers(0, 10, count)
    if kind == "dense":
        values, form = rng.uniform(-2, 2, (count, 40)), "%.6f " * 40 + "|y %d"
    else:
        steps = np.cumsum(rng.integers(1, 40, (count, 40)), axis=1)
        values = np.dstack([steps, rng.random(steps.shape)]).reshape(count, 80)
        form = "%d:%.4f " * 40 + "|y %d:1"
    return np.column_stack([ids, values, labels]), f"%d |x {form}"


def write_text(kind: str) -> None:
    """Write a text, and the same as a table for readers of those: no names, no indices."""
    if kind == "JSON":  # two hundred integers, and a text that nobody asks for
        rows = (32_000 * np.random.default_rng(0).random((scaled(20_000), 200)) ** 2).astype(
            int
        )
        said = {"text": "what was said, " * 3}
        lines = (json.dumps(said | {"tokens": row}) + "\n" for row in rows.tolist())
        Path(kind).write_text("".join(lines))
        return
    rows, form = make_table(kind)
    np.savetxt(kind, rows, form)
    words = form.replace("|x ", "").replace("|y ", "").replace(":", " ")
    np.savetxt(f"{kind}.csv", rows, words.replace(" ", ","))


def open_text(kind: str) -> sh.Deserializer:
    if kind == "JSON":
        return sh.JSONLDeserializer("JSON", sh.StreamDefs(tokens=sh.StreamDef()))
    streams = {
        name: sh.StreamDef(field=name, shape=extent, is_sparse=kind != "dense")
        for name, extent in zip("xy", DIMENSIONS[kind], strict=True)
    }
    return sh.CTFDeserializer(kind, sh.StreamDefs(**streams), chunk_size_in_bytes=1 << 23)


def by_pyarrow(kind: str, text: bytes) -> object:
    if kind == "JSON":
        options = pa.json.ReadOptions(use_threads=False, block_size=8 << 20)
        return pa.json.read_json(io.BytesIO(text), read_options=options)
    names = [str(i) for i in range(text[: text.index(b"\n")].count(b",") + 1)]
    types = dict.fromkeys(names, pa.float32())
    return pa.csv.read_csv(
        io.BytesIO(text),
        read_options=pa.csv.ReadOptions(column_names=names, use_threads=False),
        convert_options=pa.csv.ConvertOptions(column_types=types),
    )


def by_python(kind: str, text: bytes) -> object:
    if kind == "JSON":
        return [json.loads(line)["tokens"] for line in text.splitlines()]
    return np.loadtxt(io.BytesIO(text), np.float32, delimiter=",")


class Text:
    """All of a text into columns on one thread; "Python" is NumPy's loadtxt, or json."""

    params = (KINDS, ["sweephand", "pyarrow", "Python"])
    param_names = ("text", "reader")
    timer = time.process_time

    def setup_cache(self) -> None:
        for kind in KINDS:
            write_text(kind)

    def setup(self, kind: str, reader: str) -> None:
        if reader == "sweephand":
            self.path = Path(kind)
            self.work = load_chunks(open_text(kind))
        else:
            self.path = Path("JSON" if kind == "JSON" else f"{kind}.csv")
            read = by_pyarrow if reader == "pyarrow" else by_python
            self.work = partial(read, kind, self.path.read_bytes())

    def time_read(self, kind: str, reader: str) -> None:
        self.work()

    def track_bytes(self, kind: str, reader: str) -> int:
        return self.path.stat().st_size


class TextThreads:
    """All of the dense text on several threads, by the clock on the wall."""

    params = ([1, 2],)
    param_names = ("threads",)

    def setup_cache(self) -> None:
        write_text("dense")

    def setup(self, threads: int) -> None:
        self.work = load_chunks(open_text("dense"), threads)

    def time_read(self, threads: int) -> None:
        self.work()

    def track_bytes(self, threads: int) -> int:
        return Path("dense").stat().st_size


# -- records --
EXAMPLE = sh.StreamDefs(
    tokens=sh.StreamDef(), label=sh.StreamDef(shape=1, defines_mb_size=True)
)


class Records:
    """Examples of 714 bytes, checksums verified, into columns on one thread."""

    timer = time.process_time

    def setup_cache(self) -> int:
        return write_examples("x.tfrecord")

    def setup(self, count: int) -> None:
        self.work = load_chunks(sh.TFRecordDeserializer("x.tfrecord", EXAMPLE))

    def time_columns(self, count: int) -> None:
        self.work()

    def track_samples(self, count: int) -> int:
        return count


class Tfds:
    """A folder of such examples, whole minibatches in TFDS' order and in ours."""

    params = (["TFDS' order", "shuffled as a whole", "in a window"],)
    param_names = ("order",)
    timer = time.process_time
    shards = 4

    def setup_cache(self) -> int:
        counts = [
            write_examples(f"x-train.tfrecord-{n:05}-of-{self.shards:05}", 15_000)
            for n in range(self.shards)
        ]
        split = {"name": "train", "shardLengths": [*map(str, counts)], "numBytes": "9"}
        info = {"name": "x", "version": "1.0.0", "splits": [split]}
        Path("dataset_info.json").write_text(json.dumps(info))
        return sum(counts)

    def setup(self, count: int, order: str) -> None:
        config = sh.tfds.ReadConfig(shuffle_seed=3)
        tokens, label = sh.StreamDef(dtype="int64"), sh.StreamDef(dtype="int64", shape=1)
        streams = sh.StreamDefs(tokens=tokens, label=label)
        builder = sh.tfds.builder_from_directory(Path.cwd())
        data = builder.as_dataset(split="train", read_config=config, streams=streams)
        window = {"randomization_window_in_chunks": 4} if order == "in a window" else {}
        self.work = one_sweep(data, 1024, randomize=order != "TFDS' order", **window)

    def time_sweep(self, count: int, order: str) -> None:
        self.work()

    def track_samples(self, count: int, order: str) -> int:
        return count


class TfdsPlace:
    """Going to a place of a TFDS pass over 103 M examples in 1,024 shuffled shards."""

    params = ([1, 99],)
    param_names = ("percent",)

    def setup(self, percent: int) -> None:
        takes = np.random.default_rng(0).integers(90_000, 110_000, 1024).tolist()
        self.rows = [
            sh.tfds.FileInstruction(f"/x-{n}", 0, take, take) for n, take in enumerate(takes)
        ]

    def time_place(self, percent: int) -> None:
        config = sh.tfds.ReadConfig(shuffle_seed=3)
        order = ReadOrder(self.rows, config, shuffle_files=True)
        order.take(len(order) * percent // 100, 64)


class Checksum:
    """CRC32C of pieces of 1 MiB."""

    def setup(self) -> None:
        self.piece = np.zeros(1 << 20, np.uint8)

    def time_pieces(self) -> None:
        for _ in range(64):
            _core.formats.crc32c(self.piece)

    def track_bytes(self) -> int:
        return 64 << 20


# -- whole minibatches --
MINIBATCH = 1 << 16  # samples


class Parquet:
    """Lists of tokens as whole minibatches, beside pyarrow that only reads the row groups."""

    params = (["sweephand", "pyarrow"],)
    param_names = ("reader",)
    timer = time.process_time

    def setup_cache(self) -> None:
        rng = np.random.default_rng(0)
        offsets = np.append(0, np.cumsum(rng.integers(50, 500, scaled(100_000)))).astype(
            np.int32
        )
        values = pa.array(rng.integers(0, 32_000, offsets[-1], dtype=np.int32))
        lists = pa.ListArray.from_arrays(pa.array(offsets), values)
        table = pa.table({"tokens": lists, "label": offsets[1:]})
        pa.parquet.write_table(table, "x.parquet", row_group_size=4000)

    def setup(self, reader: str) -> None:
        tokens = sh.StreamDef(dtype="int32", defines_mb_size=True)
        streams = sh.StreamDefs(tokens=tokens, label=sh.StreamDef())
        corpus = sh.ParquetDeserializer("x.parquet", streams)
        ours = one_sweep(corpus, MINIBATCH, randomize=False)
        self.work = ours if reader == "sweephand" else self.by_pyarrow

    def by_pyarrow(self) -> None:
        file = pa.parquet.ParquetFile("x.parquet", pre_buffer=True)
        for group in range(file.num_row_groups):
            file.read_row_group(group)

    def time_read(self, reader: str) -> None:
        self.work()


class TokenFile:
    """Shuffled sequences of a file of tokens, beside the same in arrays."""

    params = ([1024, 128], ["arrays", "in files", "in a window of 4 chunks"])
    param_names = ("length", "way")
    timer = time.process_time

    def setup_cache(self) -> None:
        count = scaled(1 << 15) * 1024
        tokens = np.random.default_rng(0).integers(0, 60_000, count, dtype=np.uint16)
        tokens.tofile("x.bin")

    def setup(self, length: int, way: str) -> None:
        corpus: sh.Deserializer = sh.RawTokensDeserializer("x.bin", "uint16", length)
        if way == "arrays":
            tokens = np.fromfile("x.bin", np.uint16)
            bounds = np.arange(0, len(tokens) + 1, length)
            corpus = sh.ArrayDeserializer({"tokens": (tokens, bounds)})
        window = {"randomization_window_in_chunks": 4} if "window" in way else {}
        self.work = one_sweep(corpus, MINIBATCH, **window)

    def time_sweep(self, length: int, way: str) -> None:
        self.work()

    def track_samples(self, length: int, way: str) -> int:
        return Path("x.bin").stat().st_size // 2


def write_megatron(name: str) -> None:
    """Write a pair of 20 sequences of 25 tokens."""
    lengths, begins = np.full(20, 25, "<i4"), 50 * np.arange(20, dtype="<i8")
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 20, 21)
    bounds = np.arange(21, dtype="<i8")
    index = head + lengths.tobytes() + begins.tobytes() + bounds.tobytes()
    Path(f"{name}.idx").write_bytes(index)
    np.zeros(500, np.uint16).tofile(f"{name}.bin")


TOKENS = sh.StreamDefs(tokens=sh.StreamDef())
ONE = sh.StreamDefs(tokens=sh.StreamDef(field="tokens", shape=1))

OPENED: dict[str, Callable[[], sh.Deserializer]] = {
    "Megatron pairs": lambda: sh.MegatronDeserializer("p-*"),
    "CNTK's text": lambda: sh.CTFDeserializer("p-*.ctf", ONE),
    "TFRecord": lambda: sh.TFRecordDeserializer("p-*.tfrecord", TOKENS),
    "Parquet": lambda: sh.ParquetDeserializer("p-*.parquet", TOKENS),
    "JSON lines": lambda: sh.JSONLDeserializer("p-*.jsonl", TOKENS),
}


class Opening:
    """Opening a thousand files with their index."""

    params = (list(OPENED),)
    param_names = ("format",)

    def setup_cache(self) -> None:
        table = pa.table({"tokens": [[1, 2, 3]] * 20})
        for name in (f"p-{n:04}" for n in range(scaled(1000))):
            write_megatron(name)
            Path(f"{name}.ctf").write_text("|tokens 1\n" * 20)
            sh.tfrecord.write(f"{name}.tfrecord", [{"tokens": [1, 2, 3]}] * 20)
            pa.parquet.write_table(table, f"{name}.parquet")
            Path(f"{name}.jsonl").write_text('{"tokens": [1, 2, 3]}\n' * 20)
        for make in OPENED.values():
            sh.MinibatchSource(make()).close()  # builds the index

    def setup(self, kind: str) -> None:
        self.make = OPENED[kind]

    def time_open(self, kind: str) -> None:
        sh.MinibatchSource(self.make()).close()
