"""Whole sweeps of files that have to be parsed: opened with their index, shuffled by default.

Files are in the page cache. C loops only read digits, or varints; readers of tables are given
the same numbers as a table, as the formats have names and indices that they do not know.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sweephand as sh

from .contest import Found, Row, peer
from .corpora import scaled
from .limits import Array, digit_reader, varint_reader
from .turn import Steps, again

BATCH = 1024


def sweeps(
    make: Callable[[], sh.Deserializer], size: int, count: int, *streams: str, **options: int
) -> Steps:
    """Open a source and read one sweep, again and again; yield how much it is."""
    sh.MinibatchSource(make()).close()  # builds the index
    yield 0
    while True:
        with sh.MinibatchSource(make(), max_sweeps=1, **options) as source:
            for minibatch in source.minibatches(size):
                _ = [minibatch[name].values for name in streams]
        yield count


# -- CNTK's text --
def write_text(form: str, numbers: NDArray[np.float64], lines_of_sequence: int) -> None:
    """Write 20 times the same lines, each with its own ids, and once as a table."""
    with io.BytesIO() as written:
        np.savetxt(written, numbers, form)
        lines = written.getvalue().decode().splitlines()
    ids = (n // lines_of_sequence for n in range(20 * len(lines)))
    Path("x.ctf").write_text(
        "".join(f"{i} {line}\n" for i, line in zip(ids, lines * 20, strict=True))
    )
    table = form.replace("|x ", "").replace("|y ", "").replace(":", " ").replace(" ", ",")
    np.savetxt("part.csv", numbers, table)
    Path("x.csv").write_bytes(Path("part.csv").read_bytes() * 20)


def text_size() -> int:
    return Path("x.ctf").stat().st_size


def open_text(x: sh.StreamDef, y: sh.StreamDef) -> Steps:
    streams = sh.StreamDefs(x=x, y=y)
    return sweeps(lambda: sh.CTFDeserializer("x.ctf", streams), BATCH, text_size(), "x", "y")


def read_digits() -> Steps:
    return again(digit_reader(Path("x.ctf").read_bytes()), text_size())


def by_pyarrow() -> Steps:
    import pyarrow as pa
    from pyarrow import csv

    table = Path("x.csv").read_bytes()
    names = [str(i) for i in range(table[: table.index(b"\n")].count(b",") + 1)]
    types = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float32()))
    options = csv.ReadOptions(column_names=names, use_threads=False)
    return again(
        lambda: csv.read_csv(io.BytesIO(table), read_options=options, convert_options=types),
        text_size(),
    )


def by_numpy() -> Steps:
    """A twentieth of the table, as it takes long."""
    table = Path("part.csv").read_bytes()
    return again(
        lambda: np.loadtxt(io.BytesIO(table), np.float32, delimiter=","), text_size() // 20
    )


class SparseText(Row):
    """Lines of forty pairs of an index and a value, and a one-hot label; three a sequence."""

    contenders = {
        "sweephand": lambda: open_text(
            sh.StreamDef(field="x", shape=1600, is_sparse=True),
            sh.StreamDef(field="y", shape=10, is_sparse=True),
        ),
        "C digits": read_digits,
        "NumPy by hand": by_numpy,
        "pyarrow, a table": by_pyarrow,
    }
    unit, per = "MB/s", 1e6

    def write_data(self) -> None:
        rng = np.random.default_rng(0)
        count = scaled(4500)
        steps = np.cumsum(rng.integers(1, 40, (count, 40)), axis=1)
        pairs = np.dstack([steps, rng.random(steps.shape)]).reshape(count, 80)
        numbers = np.column_stack([pairs, rng.integers(0, 10, count)])
        write_text("|x " + "%d:%.4f " * 40 + "|y %d:1", numbers, 3)

    def setup_cache(self) -> Found:
        return self.compete()


class DenseText(Row):
    """Lines of forty numbers with six decimals, and a label."""

    contenders = {
        "sweephand": lambda: open_text(
            sh.StreamDef(field="x", shape=40), sh.StreamDef(field="y", shape=1)
        ),
        "C digits": read_digits,
        "NumPy by hand": by_numpy,
        "pyarrow, a table": by_pyarrow,
    }
    unit, per = "MB/s", 1e6

    def write_data(self) -> None:
        rng = np.random.default_rng(0)
        count = scaled(4500)
        numbers = [rng.uniform(-2, 2, (count, 40)), rng.integers(0, 10, count)]
        write_text("|x " + "%.6f " * 40 + "|y %d", np.column_stack(numbers), 1)

    def setup_cache(self) -> Found:
        return self.compete()


class ShortText(Row):
    """Lines of a word and a label, each a pair and a comment, twelve a sequence, as in ATIS."""

    contenders = {
        "sweephand": lambda: open_short_text(),
        "sweephand, inline": lambda: open_short_text(num_threads=0),
        "C digits": read_digits,
        "pyarrow, a table": by_pyarrow,
    }
    unit, per = "MB/s", 1e6

    def write_data(self) -> None:
        rng = np.random.default_rng(0)
        lengths = rng.integers(4, 21, scaled(250_000))
        ids = np.repeat(np.arange(len(lengths)), lengths)
        words = np.minimum(rng.zipf(1.3, len(ids)), 943) - 1
        labels = np.where(rng.random(len(ids)) < 0.65, 128, rng.integers(0, 128, len(ids)))
        names = [
            "O" if label == 128 else f"B-slot.{label * 7919 % 999}" for label in range(129)
        ]
        spelt = ["BOS", *("".join(rng.choice([*"aeinorst"], 2 + n % 7)) for n in range(942))]
        rows = list(zip(ids.tolist(), words.tolist(), labels.tolist(), strict=True))
        Path("x.ctf").write_text(
            "".join(
                f"{i} |S0 {w}:1 |# {spelt[w]} |S2 {s}:1 |# {names[s]}\n" for i, w, s in rows
            )
        )
        Path("x.csv").write_text("".join(f"{w},1,{s},1\n" for _, w, s in rows))

    def setup_cache(self) -> Found:
        return self.compete()


def open_short_text(**options: int) -> Steps:
    words = sh.StreamDef(field="S0", shape=943, is_sparse=True)
    labels = sh.StreamDef(field="S2", shape=129, is_sparse=True, defines_mb_size=True)
    streams = sh.StreamDefs(words=words, labels=labels)
    return sweeps(
        lambda: sh.CTFDeserializer("x.ctf", streams),
        8 * BATCH,
        text_size(),
        *streams,
        **options,
    )


# -- records --
def make_examples() -> NDArray[np.int64]:
    """Return the tokens of examples of about 714 bytes each."""
    rng = np.random.default_rng(0)
    return (32_000 * rng.random((scaled(160_000), 312)) ** 2).astype(np.int64)


def open_records(dtype: str = "int64") -> Steps:
    label = sh.StreamDef(shape=1, defines_mb_size=True)
    streams = sh.StreamDefs(tokens=sh.StreamDef(dtype=dtype), label=label)
    count = len(make_examples())
    return sweeps(
        lambda: sh.TFRecordDeserializer("x.tfrecord", streams), BATCH, count, "tokens", "label"
    )


def read_varints(values: NDArray[np.int64], kernel: str = "read_varints") -> Steps:
    return again(varint_reader(values.ravel(), kernel), len(values))


class Records(Row):
    """TFRecord examples of 714 bytes, checksums verified, 1,024 at a time."""

    contenders = {
        "sweephand": open_records,
        "sweephand, int32": lambda: open_records("int32"),
        "C varints": lambda: read_varints(make_examples()),
        "C varints, 64 bytes a step": lambda: read_varints(make_examples(), WIDE),
        "tf.data, one thread": peer("records.by_tensorflow"),
        "the `tfrecord` package": peer("records.by_tfrecord"),
    }
    unit, per = "k examples/s", 1e3

    def write_data(self) -> None:
        rows = make_examples()
        sh.tfrecord.write(
            "x.tfrecord", ({"tokens": row, "label": int(row[0]) % 10} for row in rows)
        )

    def setup_cache(self) -> Found:
        return self.compete()


WIDE = "read_varints_of_64"
FEATURES = ("user", "items", "seen", "shown")


def make_ids() -> NDArray[np.int64]:
    """Return hashes of 49 to 56 bits: of examples of four features of sixteen each."""
    rng = np.random.default_rng(0)
    return rng.integers(1 << 49, 1 << 56, (scaled(160_000), len(FEATURES), 16))


def open_ids(**options: int) -> Steps:
    label = sh.StreamDef(shape=1, defines_mb_size=True)
    streams = sh.StreamDefs(dict.fromkeys(FEATURES, sh.StreamDef()) | {"label": label})
    return sweeps(
        lambda: sh.TFRecordDeserializer("x.tfrecord", streams),
        BATCH, len(make_ids()), *streams, **options,
    )  # fmt: skip


class RecordsOfIds(Row):
    """TFRecord examples of 64 ids of eight bytes in four features, and a label."""

    contenders = {
        "sweephand": open_ids,
        "sweephand, inline": lambda: open_ids(num_threads=0),
        "C varints": lambda: read_varints(make_ids()),
        "C varints, 64 bytes a step": lambda: read_varints(make_ids(), WIDE),
    }
    unit, per = "k examples/s", 1e3

    def write_data(self) -> None:
        features = (dict(zip(FEATURES, row, strict=True)) for row in make_ids())
        sh.tfrecord.write(
            "x.tfrecord", (one | {"label": int(one["user"][0]) % 2} for one in features)
        )

    def setup_cache(self) -> Found:
        return self.compete()


# -- tables --
GROUP = 4000  # rows


def make_lists() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    offsets = np.append(0, np.cumsum(rng.integers(50, 500, scaled(60_000)))).astype(np.int32)
    return rng.integers(0, 32_000, offsets[-1], dtype=np.int32), offsets


def open_parquet() -> Steps:
    tokens = sh.StreamDef(dtype="int32", defines_mb_size=True)
    streams = sh.StreamDefs(tokens=tokens, label=sh.StreamDef())
    count = len(make_lists()[0])
    return sweeps(
        lambda: sh.ParquetDeserializer("x.parquet", streams), 1 << 16, count, "tokens", "label"
    )


def parquet_by_pyarrow() -> Steps:
    from pyarrow import parquet

    def read() -> None:
        file = parquet.ParquetFile("x.parquet", pre_buffer=True)
        for group in range(file.num_row_groups):
            file.read_row_group(group)

    return again(read, len(make_lists()[0]))


class Parquet(Row):
    """Lists of tokens, 65,536 at a time, beside pyarrow that only reads the row groups."""

    contenders = {"sweephand": open_parquet, "pyarrow alone": parquet_by_pyarrow}
    unit, per = "M tokens/s", 1e6

    def write_data(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        values, offsets = make_lists()
        lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
        table = pa.table({"tokens": lists, "label": offsets[1:]})
        parquet.write_table(table, "x.parquet", row_group_size=GROUP)

    def setup_cache(self) -> Found:
        return self.compete()


# -- lines of JSON --
def open_json() -> Steps:
    streams = sh.StreamDefs(tokens=sh.StreamDef())
    size = Path("x.jsonl").stat().st_size
    return sweeps(lambda: sh.JSONLDeserializer("x.jsonl", streams), 1 << 16, size, "tokens")


def json_by_hand() -> Steps:
    text = Path("x.jsonl").read_bytes()
    return again(lambda: [json.loads(line)["tokens"] for line in text.splitlines()], len(text))


def json_by_pyarrow() -> Steps:
    from pyarrow import json as arrow_json

    text = Path("x.jsonl").read_bytes()
    options = arrow_json.ReadOptions(use_threads=False, block_size=8 << 20)
    return again(
        lambda: arrow_json.read_json(io.BytesIO(text), read_options=options), len(text)
    )


class JsonLines(Row):
    """Two hundred integers a line, and a text that nobody asks for."""

    contenders = {
        "sweephand": open_json,
        "Python's json": json_by_hand,
        "pyarrow": json_by_pyarrow,
    }
    unit, per = "MB/s", 1e6

    def write_data(self) -> None:
        rows = (32_000 * np.random.default_rng(0).random((scaled(20_000), 200)) ** 2).astype(
            int
        )
        said = {"text": "what was said, " * 3}
        lines = (json.dumps(said | {"tokens": row}) + "\n" for row in rows.tolist())
        Path("x.jsonl").write_text("".join(lines))

    def setup_cache(self) -> Found:
        return self.compete()
