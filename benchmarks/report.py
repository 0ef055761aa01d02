"""Write the tables of docs/performance.md from the results of asv and of `benchmarks.peers`.

    python -m benchmarks.report              print them
    python -m benchmarks.report --write      write them into the page

A table stands between ``<!-- its name -->`` and ``<!-- end its name -->``. One of whose figures
was not measured is named and left as it is.
"""

from __future__ import annotations

import argparse
import ast
import json
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.peers.runner import RESULTS as PEERS

RESULTS = Path(__file__).parent / ".asv" / "results"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"

Parameters = tuple[object, ...]
Lines = Iterator[Sequence[object]]  # cells; the head comes first


class Figure(NamedTuple):
    """A median between its quartiles."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.value:.3g}"
        return f"{self.value:.3g} ({self.low:.3g} - {self.high:.3g})"


class Measure(NamedTuple):
    """A benchmark, the unit of its figures, and what they are divided by to come to that.

    A unit of ``/s`` wants samples or bytes per second; other times are those of one sample,
    where the class tracks how many there are.
    """

    benchmark: str
    unit: str
    scale: float = 1.0
    limit: str = ""  # the last parameter of what others are told beside


class Results:
    """What asv has found."""

    def __init__(self, path: Path) -> None:
        found = json.loads(path.read_text())
        self.machine: dict[str, str] = found["params"]
        self._rows: dict[str, dict[str, Any]] = {
            name: dict(zip(found["result_columns"], row, strict=False))
            for name, row in found["results"].items()
        }

    def parameters(self, benchmark: str) -> list[Parameters]:
        words = self._rows[benchmark]["params"]
        return list(product(*([ast.literal_eval(word) for word in one] for one in words)))

    def get(self, measure: Measure, of: Parameters) -> Figure:
        """KeyError: it was not measured."""
        name, unit, scale, _ = measure
        value, low, high = self._found(name, of)
        count, (owner, _, function) = 1.0, name.rpartition(".")
        for tracked in (f"{owner}.track_samples", f"{owner}.track_bytes"):
            if function.startswith("time_") and tracked in self._rows:
                count = self._found(tracked, of).value
        if unit.endswith("/s"):
            return Figure(*(count / one / scale for one in (value, high, low)))
        return Figure(*(one / count / scale for one in (value, low, high)))

    def _found(self, name: str, of: Parameters) -> Figure:
        row = self._rows[name]
        at = self.parameters(name).index(of)
        columns = (row.get(key) for key in ("result", "stats_q_25", "stats_q_75"))
        value, low, high = (column and column[at] for column in columns)
        if value is None or value != value:  # skipped: not a number
            raise KeyError(name)
        return Figure(value, low or value, high or value)


def rates(results: Results, limit: str, rows: dict[str, Measure]) -> Lines:
    """Tell of speeds, and of each as a part of the limit's."""
    yield "", "", "median (quartiles)", f"speed beside {limit}"
    for what, measure in rows.items():
        for of in results.parameters(measure.benchmark):
            figure, ratio = results.get(measure, of), ""
            if measure.limit:
                best = results.get(measure, (*of[:-1], measure.limit)).value
                is_rate = measure.unit.endswith("/s")
                ratio = f"{figure.value / best if is_rate else best / figure.value:.2f}"
            yield what, ", ".join(map(str, of)), f"{figure} {measure.unit}", ratio


def columns(results: Results, what: str, measures: dict[str, Measure]) -> Lines:
    """Tell of several measures that have the same parameters."""
    yield what, *measures
    first = next(iter(measures.values()))
    for of in results.parameters(first.benchmark):
        figures = (f"{results.get(one, of)} {one.unit}" for one in measures.values())
        yield ", ".join(map(str, of)), *figures


def peers(found: dict[str, Any], figures: Sequence[str]) -> Lines:
    yield "figure", "", "median (least - most)", "ours is faster by"
    for figure in figures:
        ours = median(next(iter(found[figure].values()))["rates"])  # the first
        for name, told in found[figure].items():
            label = f"{name}, {told['package']} {told['version']}"
            if told["rates"] is None:
                yield figure, f"{name}, not installed", "", ""
                continue
            rate = Figure(*(f(told["rates"]) / 1e6 for f in (median, min, max)))
            yield figure, label, f"{rate} M/s", f"{ours / median(told['rates']):.1f}"


MIB = 2.0**20
SOURCE = {
    "one sweep": Measure("bench_source.Delivery.time_sweep", "M samples/s", 1e6, "C gather"),
    "calls that find their minibatch ready, two streams": (
        Measure("bench_source.ReadyCall.time_calls", "k calls/s", 1e3)
    ),
    "planning alone, one thread": (
        Measure("bench_source.Planning.time_plans", "M sequences/s", 1e6)
    ),
}
FRESH = {
    "time": Measure("bench_source.Fresh.time_wait", "ms", 1e-3),
    "grown": Measure("bench_source.FreshMemory.track_grown", "MiB", MIB),
}
MEMORY = {
    "grown": Measure("bench_memory.Run.track_grown", "MiB", MIB),
    "stated": Measure("bench_memory.Run.track_stated", "MiB", MIB),
}
TEXT = {
    "text": Measure("bench_read.Text.time_read", "MB/s", 1e6, "sweephand"),
    "dense text by the clock, threads": (
        Measure("bench_read.TextThreads.time_read", "MB/s", 1e6)
    ),
}
READ = {
    "TFRecord, examples of 714 bytes, checksums verified, into columns, one thread": (
        Measure("bench_read.Records.time_columns", "M records/s", 1e6)
    ),
    "TFDS folder of such examples, whole minibatches": (
        Measure("bench_read.Tfds.time_sweep", "M examples/s", 1e6)
    ),
    "CRC32C, pieces of 1 MiB": Measure("bench_read.Checksum.time_pieces", "GB/s", 1e9),
    "Parquet, lists of tokens: whole minibatches, or pyarrow reading row groups alone": (
        Measure("bench_read.Parquet.time_read", "ms", 1e-3, "pyarrow")
    ),
    "token files, sequences of": (
        Measure("bench_read.TokenFile.time_sweep", "M tokens/s", 1e6, "arrays")
    ),
    "opening 1,000 files with their index": (
        Measure("bench_read.Opening.time_open", "ms", 1e-3)
    ),
    "a place of a TFDS pass over 103 M examples in 1,024 shuffled shards, per cent": (
        Measure("bench_read.TfdsPlace.time_place", "ms", 1e-3)
    ),
}
FILES = {
    "grown": Measure("bench_memory.Files.track_read", "MB", 1e6),
    "`memory_bound`": Measure("bench_memory.Files.track_stated", "MB", 1e6),
    "grown to build the index": Measure("bench_memory.Files.track_index", "MB", 1e6),
    "sequences": Measure("bench_memory.Files.track_sequences", "M", 1e6),
}
STEPS = {
    "a step of `Trainer`": Measure("bench_train.Step.time_steps", "µs", 1e-6, "by hand"),
    "a step of a session": Measure("bench_train.Session.time_steps", "µs", 1e-6, "by hand"),
}
SAVE = {
    "the loop waits": Measure("bench_train.Save.time_loop_waits", "s"),
    "the whole": Measure("bench_train.Save.time_whole", "s"),
}


def machine(results: Results) -> Lines:
    told = results.machine
    versions = [f"{name} {version(name)}" for name in ("numpy", "torch", "pyarrow")]
    python = f"Python {platform.python_version()}, {', '.join(versions)}"
    yield [f"{told['cpu']}, {told['num_cpu']} cores; {python}."]


def tables(results: Results, of_peers: dict[str, Any]) -> dict[str, Lines]:
    return {
        "machine": machine(results),
        "source": rates(results, "the C loop", SOURCE),
        "fresh": columns(results, "in a process of its own", FRESH),
        "peers": peers(of_peers, ("rows", "ragged", "padded")),
        "memory": columns(results, "threads, minibatches", MEMORY),
        "text": rates(results, "ours", TEXT),
        "read": rates(results, "pyarrow, arrays", READ),
        "records": peers(of_peers, ("records of 714 bytes",)),
        "files": columns(results, "format, GB", FILES),
        "steps": rates(results, "the loop by hand", STEPS),
        "save": columns(results, "a checkpoint of 1 GB", SAVE),
    }


def told(lines: Lines) -> list[str]:
    head, *rows = ([str(cell) for cell in line] for line in lines)
    if len(head) == 1:
        return head
    return [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]


def put(page: Path, mark: str, lines: Sequence[str]) -> None:
    """Replace what stands between ``<!-- mark -->`` and ``<!-- end mark -->``."""
    begin, end = f"<!-- {mark} -->", f"<!-- end {mark} -->"
    before, opening, rest = page.read_text().partition(begin)
    _, closing, after = rest.partition(end)
    if not (opening and closing):
        raise ValueError(f"{page} has no place for {mark}: {begin} and {end}")
    page.write_text("\n".join([before + begin, *lines, end + after]))


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.report", description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--results", type=Path, help="of asv; the newest by default")
    parser.add_argument("--peers", type=Path, default=PEERS)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    newest = sorted(RESULTS.glob("*/*-*.json"), key=lambda file: file.stat().st_mtime)[-1:]
    of_peers = json.loads(options.peers.read_text()) if options.peers.exists() else {}
    for name, table in tables(Results(options.results or newest[0]), of_peers).items():
        try:
            lines = told(table)
        except KeyError as missing:
            print(f"{name} is left as it is: {missing} was not measured\n")
            continue
        print(*lines, "", sep="\n")
        if options.write:
            put(options.page, name, lines)


if __name__ == "__main__":
    main()
