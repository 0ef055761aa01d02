"""Draw a run: loss, learning rate, loss scale and minibatch size over its steps.

RUN is the file that a sh.JSONLProgressWriter writes, also while it is written, or a folder with
one such file, *.jsonl.

for example:
  sweephand plot run/log.jsonl
  sweephand plot run/ --png run.png --html run.html
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweephand.cli.picture import keep_picture
from sweephand.cli.run_log import Curve, curves_of, held, in_columns, log_at, read_log
from sweephand.terminal import pictures
from sweephand.terminal.charts import curve
from sweephand.terminal.numbers import in_count
from sweephand.terminal.screen import Screen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE = "the curves"

_COLUMNS = 60
_HELD = ("learning rate", "loss scale")  # reported when they change


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("run", metavar="RUN", type=Path, help="the log, or its folder")


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    path = log_at(arguments.run)
    records = read_log(path)
    last = max(record["step"] for record in records)
    panels = curves_of(records)
    facts: dict[str, Any] = {
        "log": str(path),
        "steps": last,
        "samples": max(record["samples"] for record in records),
        "events": [one["message"] for one in records if one["kind"] == "event"],
        "curves": {
            panel: {
                name: {"steps": found.steps.tolist(), "values": found.values.tolist()}
                for name, found in curves.items()
            }
            for panel, curves in panels.items()
        },
    }
    _show(facts, panels, screen)
    keep_picture(arguments, screen, facts, lambda: _draw(facts, panels))
    return facts


def _show(facts: dict[str, Any], panels: dict[str, dict[str, Curve]], screen: Screen) -> None:
    shown = {
        "log": facts["log"],
        "steps": in_count(facts["steps"]),
        "samples": in_count(facts["samples"]),
    }
    if facts["events"]:
        shown["last event"] = facts["events"][-1]
    screen.facts(shown)
    for panel, curves in panels.items():
        for name, found in curves.items():
            screen.heading(_title(panel, name, found))
            values = in_columns(found, facts["steps"], _COLUMNS, is_held=panel in _HELD)
            ends = ("1", in_count(facts["steps"]))
            is_log = panel == "loss scale" and bool((found.values > 0).all())
            screen.lines(
                curve(values, screen.ink, room=screen.width, height=8, is_log=is_log, ends=ends)
            )


def _title(panel: str, name: str, found: Curve) -> str:
    first, last = found.values[0], found.values[-1]
    of = {"mean": "", "training": "", panel.replace(" ", "_"): ""}.get(name, f" ({name})")
    return f"{panel.capitalize()}{of}, from {first:,.6g} to {last:,.6g}"


def _draw(facts: dict[str, Any], panels: dict[str, dict[str, Curve]]) -> Figure:
    log = Path(facts["log"])
    figure, axes = pictures.new_figure(
        f"{log.parent.resolve().name}/{log.name}: {in_count(facts['steps'])} steps",
        len(panels),
        columns=2,
    )
    for axis, (panel, curves) in zip(axes, panels.items(), strict=True):
        for name, found in curves.items():
            if panel in _HELD:
                stays = held(found, facts["steps"])
                axis.step(stays.steps, stays.values, where="post", label=name)
            else:
                mark = "o" if len(found.steps) < 40 else ""
                axis.plot(found.steps, found.values, marker=mark, markersize=3, label=name)
        axis.set(xlabel="step", ylabel=panel)
        if panel == "loss scale" and all((c.values > 0).all() for c in curves.values()):
            axis.set_yscale("log", base=2)
        if len(curves) > 1:
            axis.legend()
        if panel == "minibatch size":
            axis.set_ylim(bottom=0)
        pictures.with_commas(axis.xaxis, integer=True)
        pictures.with_commas(axis.yaxis)
    return figure
