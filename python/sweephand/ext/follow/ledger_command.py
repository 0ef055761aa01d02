"""Look into a ledger of losses: the costliest sequences, and every visit of a sequence.

LEDGER is the folder that a sh.LossLedger writes, also while it is written. "top" lists the
sequences with the highest mean loss, "by-corpus" compares corpora, files or arrays, and "show"
lists all visits of one sequence.

for example:
  sweephand ledger top run/losses
  sweephand ledger top run/losses --by per-sample
  sweephand ledger by-corpus run/losses --json
  sweephand ledger show run/losses web-0.parquet__17
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sweephand.ext.follow.loss_ledger import read_ledger
from sweephand.extend import (
    Answer,
    Screen,
    WrongUsage,
    count,
    in_count,
    option,
)

BY = ("mean", "per-sample", "last", "sum")


class LedgerRows:
    """The rows of a ledger."""

    def __init__(self, folder: Path) -> None:
        self.visits, names = read_ledger(folder)
        self.num_visits = len(self.visits)
        if not self.num_visits:
            raise ValueError(f"the ledger {folder} has no visits")
        self.first_step, self.last_step = self.visits["step"][[0, -1]].tolist()
        numbers, self.places = np.unique(self.visits["number"], return_inverse=True)
        self.ids, self.corpora = names.of(numbers)

    def ranked(self, by: str, *, of_corpora: bool) -> list[dict[str, Any]]:
        """Return sequences or corpora with their figures, the highest first; NaN leads."""
        pairs = zip(self.ids, self.corpora, strict=True)
        names, places = [{"id": name, "corpus": corpus} for name, corpus in pairs], self.places
        if of_corpora:
            corpora, groups = np.unique(np.array(self.corpora, object), return_inverse=True)
            names, places = [{"corpus": name} for name in corpora], groups[places]
        count, losses = len(names), self.visits["loss"].astype(np.float64)
        visits = np.bincount(places, minlength=count)
        sums = np.bincount(places, losses, count)
        samples = np.bincount(places, self.visits["samples"], count)
        last = np.empty(count)
        last[places] = losses  # of several the last one stays
        figures = {
            "mean": sums / visits,
            "per_sample": sums / np.maximum(samples, 1),
            "last": last,
            "sum": sums,
        }
        key = figures[by.replace("-", "_")]
        order = np.lexsort((np.arange(count), -key, ~np.isnan(key)))
        return [
            names[i]
            | {"visits": int(visits[i])}
            | {name: float(values[i]) for name, values in figures.items()}
            for i in order.tolist()
        ]


_ROWS = 20
_NO_CORPUS = "(unnamed)"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    names = ", ".join(_QUESTIONS)
    parser.add_argument("question", metavar="QUESTION", choices=list(_QUESTIONS), help=names)
    parser.add_argument("ledger", metavar="LEDGER", type=Path, help="the folder of the ledger")
    parser.add_argument("id", metavar="ID", nargs="?", help="the sequence, for show")
    parser.add_argument(
        "--by",
        choices=BY,
        default="mean",
        help="what decides: the mean loss of the visits (default), its mean per sample, the "
        "last loss, or their sum",
    )
    option(parser, "--rows N", count, f"to show; {_ROWS} by default", _ROWS)


def run(arguments: argparse.Namespace, screen: Screen) -> Answer:
    """Run the command and return its facts."""
    if (arguments.id is not None) != (arguments.question == "show"):
        raise WrongUsage(
            "show needs the ID of a sequence, top and by-corpus take none",
            "sweephand ledger",
            "usage: sweephand ledger show LEDGER ID, or sweephand ledger top LEDGER\n",
        )
    rows = LedgerRows(arguments.ledger)
    facts: Answer = {
        "ledger": str(arguments.ledger),
        "steps": [rows.first_step, rows.last_step],
        "num_visits": rows.num_visits,
        "num_sequences": len(rows.ids),
    }
    return _QUESTIONS[arguments.question](rows, arguments, facts, screen)


def _rank(
    rows: LedgerRows, arguments: argparse.Namespace, facts: Answer, screen: Screen
) -> Answer:
    """Show the sequences or corpora by their losses."""
    by, most, is_top = arguments.by, arguments.rows, arguments.question == "top"
    found = rows.ranked(by, of_corpora=not is_top)
    if is_top:
        found = found[:most]
    facts |= {"by": by, ("sequences" if is_top else "corpora"): found}
    names = ["id", "corpus"] if is_top else ["corpus"]
    screen.facts(
        {
            "ledger": facts["ledger"],
            "steps": f"{in_count(rows.first_step)} to {in_count(rows.last_step)}",
            "visits": in_count(rows.num_visits),
            "sequences": in_count(len(rows.ids)),
        }
    )
    screen.heading(f"Sequences of highest loss, by {by}" if is_top else "Loss by corpus")
    screen.table(
        [*names, "visits", "mean loss", "per sample", "last", "sum"],
        [
            [
                *(one[name] or _NO_CORPUS for name in names),
                in_count(one["visits"]),
                *(_in_digits(one[key]) for key in ("mean", "per_sample", "last", "sum")),
            ]
            for one in found[:most]
        ],
    )
    if len(found) > most:
        screen.text(f"... and {len(found) - most} more: --rows shows them")
    return facts


def _show(
    rows: LedgerRows, arguments: argparse.Namespace, facts: Answer, screen: Screen
) -> Answer:
    if arguments.id not in rows.ids:
        raise KeyError(
            f"no sequence here has the id {arguments.id!r}; ids look like {rows.ids[0]!r}"
        )
    place = rows.ids.index(arguments.id)
    corpus = rows.corpora[place]
    visits = [
        {"step": step, "nominal_time": time, "loss": loss, "num_samples": samples}
        for step, time, _, samples, loss in rows.visits[rows.places == place].tolist()
    ]
    losses = [one["loss"] for one in visits]
    facts |= {"id": arguments.id, "corpus": corpus, "visits": visits}
    screen.facts(
        {
            "id": arguments.id,
            "corpus": corpus or _NO_CORPUS,
            "visits": in_count(len(visits)),
            "loss": f"from {_in_digits(losses[0])} to {_in_digits(losses[-1])}",
        }
    )
    screen.heading("Visits" if len(visits) <= arguments.rows else "The last visits")
    screen.table(
        ["step", "nominal time", "loss", "samples"],
        [
            [
                in_count(one["step"]),
                in_count(one["nominal_time"]),
                _in_digits(one["loss"]),
                in_count(one["num_samples"]),
            ]
            for one in visits[-arguments.rows :]
        ],
    )
    return facts


def _in_digits(number: float) -> str:
    return f"{number:,.6g}"


_Question = Callable[[LedgerRows, argparse.Namespace, Answer, Screen], Answer]
_QUESTIONS: dict[str, _Question] = {"top": _rank, "by-corpus": _rank, "show": _show}
