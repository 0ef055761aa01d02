"""Text and record files, and the ways to read them that `bench_read` compares.

``python -m benchmarks.reading`` prints all figures once.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sweephand import _core, tfrecord
from sweephand.deserializers.jsonl_columns import PADDING as JSON_PADDING
from sweephand.deserializers.jsonl_columns import JsonField, read_ordinary
from sweephand.deserializers.units.tf_examples import PADDING, ExampleField, decode_examples
from sweephand.files.source_file import stat_file

Work = Callable[[], object]


# -- text --
def dense_lines(rng: np.random.Generator) -> list[str]:
    """Forty numbers with six decimals and a label, three lines a sequence."""
    values = rng.uniform(-2, 2, (80_000, 40))
    labels = rng.integers(0, 10, len(values))
    return [
        f"{i // 3} |x {' '.join(f'{value:.6f}' for value in row)} |y {label}"
        for i, (row, label) in enumerate(zip(values, labels, strict=True))
    ]


def sparse_lines(rng: np.random.Generator) -> list[str]:
    """Forty pairs of an index and a value with four decimals, and a one-hot label."""
    steps = np.cumsum(rng.integers(1, 40, (75_000, 40)), axis=1)
    values = rng.integers(0, 10_000, steps.shape) / 10_000
    labels = rng.integers(0, 10, len(steps))
    return [
        f"{i // 3} |x {' '.join(f'{a}:{b:.4f}' for a, b in zip(index, row, strict=True))} "
        f"|y {label}:1"
        for i, (index, row, label) in enumerate(zip(steps, values, labels, strict=True))
    ]


def one_hot_lines(rng: np.random.Generator) -> list[str]:
    """A word and its slot, both one-hot, ten lines a sequence: a tagged sentence."""
    words = rng.integers(0, 943, 1_300_000)
    slots = rng.integers(0, 129, len(words))
    return [
        f"{i // 10} |x {word}:1 |y {slot}:1"
        for i, (word, slot) in enumerate(zip(words, slots, strict=True))
    ]


TEXTS = {
    "dense": (dense_lines, (40, 10)),
    "sparse": (sparse_lines, (1600, 10)),
    "one-hot": (one_hot_lines, (943, 129)),
}


class Text:
    """A file in CNTK's text format and its readers; each returns the number of values."""

    def __init__(self, kind: str, folder: Path) -> None:
        make, self.dimensions = TEXTS[kind]
        lines = make(np.random.default_rng(0))
        self.kind = kind
        self.path = folder / f"{kind}.ctf"
        self.path.write_text("\n".join(lines) + "\n")
        self.size = self.path.stat().st_size
        # The same values for readers of tables, without names and indices.
        cells = [line.replace("|x", "").replace("|y", "").replace(":", " ") for line in lines]
        self.table = "\n".join(",".join(cell.split()) for cell in cells).encode()
        self.form = self._format()
        self.index()
        self.deserializer = self._open()

    def _format(self) -> _core.formats.CtfFormat:
        is_sparse = self.kind != "dense"
        width, labels = self.dimensions
        float32 = _core.base.ElementType.float32
        streams = [
            _core.formats.CtfStream("x", width, is_sparse, float32, True),
            _core.formats.CtfStream("y", labels if is_sparse else 1, is_sparse, float32, False),
        ]
        return _core.formats.CtfFormat(streams, False, False, False, 1 << 28)

    def index(self) -> None:
        """Build the index: what the first use of a file costs."""
        file = _core.read.File(str(self.path))
        start = _core.formats.ctf_start(file, self.form)
        self.found = _core.formats.ctf_index(file, self.form, start, start.offset, self.size, 0)
        self.found.ledger.check()

    def _open(self) -> _core.formats.CtfDeserializer:
        tag = _core.read.File(str(self.path)).tag
        firsts = [*_core.formats.ctf_chunks(self.found.offsets, self.size, 1 << 25).tolist()]
        ends = [*self.found.offsets.tolist(), self.size]
        counts = [*firsts, len(ends) - 1]
        chunks = [
            [
                _core.formats.CtfPiece(
                    0, ends[a], ends[b] - ends[a], int(self.found.lines[a]), b - a, 0
                )
            ]
            for a, b in pairwise(counts)
        ]
        self.num_chunks = len(chunks)
        return _core.formats.CtfDeserializer(
            self.form, [_core.formats.CtfFile(str(self.path), tag, False)], chunks
        )

    def read(self) -> int:
        return sum(
            len(column[0])
            for chunk in range(self.num_chunks)
            for column in self.deserializer.load(chunk)
        )

    def read_by_pyarrow(self) -> int:
        import pyarrow
        from pyarrow import csv as pyarrow_csv

        width = self.table[: self.table.index(b"\n")].count(b",") + 1
        names = [f"c{i}" for i in range(width)]
        table = pyarrow_csv.read_csv(
            io.BytesIO(self.table),
            read_options=pyarrow_csv.ReadOptions(column_names=names, use_threads=False),
            convert_options=pyarrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pyarrow.float32())
            ),
        )
        return int(table.num_rows * table.num_columns)

    def read_by_numpy(self) -> int:
        return np.loadtxt(io.BytesIO(self.table), np.float32, delimiter=",").size

    def read_by_python(self) -> int:
        rows = csv.reader(io.StringIO(self.table.decode()))
        return sum(len([float(cell) for cell in row]) for row in rows)

    def contenders(self) -> dict[str, tuple[Work, int]]:
        """Return the ways to read, with the bytes of text that each reads."""
        return {
            "sweephand": (self.read, self.size),
            "sweephand index": (self.index, self.size),
            "pyarrow csv": (self.read_by_pyarrow, len(self.table)),
            "NumPy loadtxt": (self.read_by_numpy, len(self.table)),
            "Python csv": (self.read_by_python, len(self.table)),
        }


# -- records --
class Records:
    """A TFRecord file of examples, about 714 bytes each: tokens and a label."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self.path = folder / "tokens.tfrecord"
        tokens = (32_000 * rng.random((60_000, 312)) ** 2).astype(np.int64)
        examples = ({"tokens": row, "label": int(row[0]) % 10} for row in tokens)
        self.num_records = tfrecord.write(self.path, examples)
        self.size = self.path.stat().st_size
        self.index()
        self.fields = [
            ExampleField("tokens", "tokens", "int64"),
            ExampleField("label", "label", "int64", is_ragged=False),
        ]

    def index(self) -> None:
        finder = _core.formats.FrameFinder(str(self.path))
        with self.path.open("rb") as file:
            while piece := file.read(1 << 20):
                finder.feed(file.tell() - len(piece), np.frombuffer(piece, np.uint8))
            finder.finish(file.tell())
        self.offsets = finder.offsets

    def read(self) -> int:
        """Read and decode chunks of 3,000 records, about 8 MiB, as a deserializer does."""
        count = 0
        file = stat_file(self.path)
        for first in range(0, self.num_records, 3_000):
            begin, end = self.offsets[[first, min(first + 3_000, self.num_records)]].tolist()
            records = _core.read.empty_bytes(end - begin + PADDING)
            file.read_into(begin, records[: end - begin])
            columns, _ = decode_examples(self.fields, records, file=file.path, offset=begin)
            count += sum(column.num_samples for column in columns)
        return count

    def read_by_python(self) -> int:
        """Read a hundredth of the records: framing and varints by plain Python."""
        data = self.path.read_bytes()[: int(self.offsets[self.num_records // 100])]
        count = at = 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 8], "little")
            record = data[at + 12 : at + 12 + length]
            value = shift = 0
            for byte in record[-length:]:
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    count += 1
                    value = shift = 0
            at += length + 16
        return count

    def contenders(self) -> dict[str, tuple[Work, int]]:
        """Return the ways to read, with the records that each reads."""
        return {
            "sweephand": (self.read, self.num_records),
            "sweephand index": (self.index, self.num_records),
            "plain Python": (self.read_by_python, self.num_records // 100),
        }


class Lines:
    """Lines of JSON: tokens, and a text that nobody asks for."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self.path = folder / "tokens.jsonl"
        tokens = (32_000 * rng.random((20_000, 200)) ** 2).astype(np.int64).tolist()
        lines = [json.dumps({"text": "what was said, " * 3, "tokens": row}) for row in tokens]
        self.text = "\n".join(lines).encode()
        self.path.write_bytes(self.text)
        self.padded = np.frombuffer(self.text + bytes(JSON_PADDING), np.uint8)

    def read(self) -> int:
        columns = read_ordinary([JsonField(())], ["tokens"], self.padded)
        assert columns is not None
        return columns[0].num_samples

    def read_by_pyarrow(self) -> int:
        import pyarrow.json as pyarrow_json

        options = pyarrow_json.ReadOptions(use_threads=False, block_size=8 << 20)
        return int(pyarrow_json.read_json(self.path, read_options=options).num_rows)

    def read_by_python(self) -> int:
        return sum(len(json.loads(line)["tokens"]) for line in self.text.splitlines())

    def contenders(self) -> dict[str, tuple[Work, int]]:
        """Return the ways to read, with the bytes of text that each reads."""
        return {
            "sweephand": (self.read, len(self.text)),
            "pyarrow json": (self.read_by_pyarrow, len(self.text)),
            "Python json": (self.read_by_python, len(self.text)),
        }


def best_seconds(
    work: Work, repeats: int = 5, clock: Callable[[], float] = time.process_time
) -> float:
    """Return the least time of several runs, of the processor unless told otherwise."""
    times = []
    for _ in range(repeats):
        begin = clock()
        work()
        times.append(clock() - begin)
    return min(times)


def main() -> None:
    """Print all figures, per second of processor time."""
    with TemporaryDirectory() as folder:
        for kind in TEXTS:
            for name, (work, size) in Text(kind, Path(folder)).contenders().items():
                repeats = 7 if name.startswith("sweephand") else 1
                print(
                    f"{kind:8} {name:16} {size / best_seconds(work, repeats) / 1e6:8.0f} MB/s"
                )
        for name, (work, size) in Lines(Path(folder)).contenders().items():
            print(f"JSON     {name:16} {size / best_seconds(work, 3) / 1e6:8.0f} MB/s")
        records = Records(Path(folder))
        print(f"records of {records.size / records.num_records - 16:.0f} bytes")
        for name, (work, count) in records.contenders().items():
            repeats = 7 if name.startswith("sweephand") else 1
            print(f"records  {name:16} {count / best_seconds(work, repeats) / 1e3:8.0f} k/s")
    for size in (714, 1 << 20):
        data = np.zeros(size, np.uint8)
        count = (256 << 20) // size

        def checksums(data: np.ndarray = data, count: int = count) -> None:
            for _ in range(count):
                _core.formats.crc32c(data)

        rate = size * count / best_seconds(checksums, 3) / 1e9
        print(f"crc32c   of {size} bytes, a call each: {rate:.1f} GB/s")


if __name__ == "__main__":
    main()
