"""Write the tables of benchmarks/RESULTS.md from the results of asv.

    python -m benchmarks.report              print them
    python -m benchmarks.report --write      write them into the page

A table stands between ``<!-- its name -->`` and ``<!-- end its name -->``. One of which nothing
was measured is named and left as it is.
"""

from __future__ import annotations

import argparse
import ast
import json
import platform
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from math import isnan, nan
from pathlib import Path
from typing import Any

from benchmarks.goals import LINES, Goal, Line
from benchmarks.suite.contest import MACHINES, Row

RESULTS = Path(__file__).parent / ".asv" / "results"
PAGE = Path(__file__).with_name("RESULTS.md")
MIB = 2.0**20
MODULES = (
    *("arrays", "formats", "images", "start", "loop", "plan", "files", "memory"),
    *("maps", "train"),
)

Table = Iterator[Sequence[str]]  # cells; the head comes first


def rows_of(module: str) -> dict[str, type[Row]]:
    found = vars(import_module(f"benchmarks.suite.bench_{module}"))
    return {
        f"bench_{module}.{name}": one
        for name, one in found.items()
        if isinstance(one, type) and issubclass(one, Row) and hasattr(one, "params")
    }


ROWS = {name: row for module in MODULES for name, row in rows_of(module).items()}


class Results:
    """What asv has found; not a number for what it has not."""

    def __init__(self, path: Path) -> None:
        found = json.loads(path.read_text())
        self.machine: dict[str, str] = found["params"]
        self._rows: dict[str, dict[str, Any]] = {
            name: dict(zip(found["result_columns"], row, strict=False))
            for name, row in found["results"].items()
        }

    def get(self, benchmark: str, *of: str) -> float:
        row = self._rows.get(benchmark)
        if row is None or row["result"] is None:
            return nan
        known = product(
            *([ast.literal_eval(word) for word in words] for words in row["params"])
        )
        values = dict(zip(known, row["result"], strict=True))
        value = values.get(of)
        return nan if value is None else float(value)


class Figures:
    """The figures of one row on one machine."""

    def __init__(self, results: Results, row: str, machine: str) -> None:
        self._results, self._name, self._machine = results, row, machine
        self.row = ROWS[row]
        self.is_rate = self.row.unit.endswith("/s")

    def get(self, kind: str, contender: str) -> float:
        return self._results.get(f"{self._name}.track_{kind}", self._machine, contender)

    def told(self, kind: str, contender: str) -> str:
        value = self.get(kind, contender) if contender else nan
        counts_bytes = kind == "processor" and not value
        return "" if isnan(value) or counts_bytes else f"{brief(value)} {self.row.unit}"

    def grown(self, contender: str) -> float:
        return self.get("grown", contender) / MIB

    def beside(self, ours: str, other: str) -> float:
        """How fast we are, on the processor, as a part of how fast another is."""
        mine, its = self.get("processor", ours), self.get("processor", other)
        return (mine / its if self.is_rate else its / mine) if mine else nan


def brief(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def goal_of(line: Line, goal: Goal, figures: Figures) -> tuple[str, str]:
    """Return what is wanted, and what came of it."""
    unit = f" {figures.row.unit}"
    if goal.beside:
        value, unit = figures.beside(line.ours, goal.beside), f" x {goal.beside}"
    elif goal.memory:
        value, unit = figures.grown(line.ours), " MiB"
    else:
        value = figures.get("processor" if figures.is_rate else "wall", line.ours)
    met = value >= goal.value if goal.sign == "≥" else value <= goal.value
    found = "" if isnan(value) else "yes" if met else f"no: {brief(value)}"
    return f"{goal.sign} {brief(goal.value)}{unit}", found


def goals(results: Results, machine: str) -> Table:
    yield (
        "workload", "limit", "by hand", "best peer", "ours, wall", "ours, processor",
        "beside the limit", "goal", "met",
    )  # fmt: skip
    for line in LINES:
        figures = Figures(results, line.row, machine)
        speeds = {peer: figures.beside(line.ours, peer) for peer in line.peers}
        known = {peer: speed for peer, speed in speeds.items() if not isnan(speed)}
        best = min(known, key=lambda peer: known[peer], default="")
        ratio = figures.beside(line.ours, line.limit) if line.limit else nan
        told = [goal_of(line, goal, figures) for goal in line.goals]
        yield (
            line.workload,
            figures.told("processor", line.limit),
            figures.told("processor", line.by_hand),
            f"{figures.told('processor', best)} ({best})" if best else "",
            figures.told("wall", line.ours),
            figures.told("processor", line.ours),
            "" if isnan(ratio) else f"{ratio:.2f}",
            ", ".join(wanted for wanted, _ in told),
            ", ".join(found for _, found in told if found),
        )


def everything(results: Results, module: str) -> Table:
    """Tell of all contenders on both machines."""
    kinds = [(machine, clock) for machine in MACHINES for clock in ("wall", "processor")]
    yield "", "", *(", ".join(kind) for kind in kinds), "spread", "grown"
    for name, row in rows_of(module).items():
        on = {machine: Figures(results, name, machine) for machine in MACHINES}
        for contender in row.contenders:
            values = [on[machine].told(clock, contender) for machine, clock in kinds]
            spread, grown = (on["quiet"].get(kind, contender) for kind in ("spread", "grown"))
            said = " ".join((row.__doc__ or "").split()).rstrip(".")
            yield (
                said if contender == next(iter(row.contenders)) else "",
                contender,
                *(values if any(values) else ["not installed", "", "", ""]),
                "" if isnan(spread) else f"± {spread:.0%}",
                "" if isnan(grown) else f"{brief(grown / MIB)} MiB",
            )


def machine(results: Results) -> Table:
    told = results.machine
    names = ("numpy", "torch", "pyarrow", "grain")
    packages = [f"{name} {version(name)}" for name in names if find_spec(name)]
    python = f"Python {platform.python_version()}, {', '.join(packages)}"
    yield [f"{told['cpu']}, {told['num_cpu']} cores; {python}."]


def tables(results: Results) -> dict[str, Table]:
    return {
        "machine": machine(results),
        **{name: goals(results, name) for name in MACHINES},
        **{name: everything(results, name) for name in MODULES},
    }


def drawn(table: Table) -> list[str]:
    """KeyError: nothing was measured."""
    head, *rows = table
    if len(head) == 1:
        return list(head)
    if not any("".join(row[4:6]) for row in rows):
        raise KeyError
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
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    newest = sorted(RESULTS.glob("*/*-*.json"), key=lambda file: file.stat().st_mtime)[-1:]
    for name, table in tables(Results(options.results or newest[0])).items():
        try:
            lines = drawn(table)
        except KeyError:
            print(f"{name} is left as it is: nothing was measured\n")
            continue
        print(*lines, "", sep="\n")
        if options.write:
            put(options.page, name, lines)


if __name__ == "__main__":
    main()
