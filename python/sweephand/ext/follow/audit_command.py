"""Audit receipts: derive every step from the corpus, and compare.

RECEIPTS is the folder that a sh.train.Receipts writes. Seed, window, layout and all else that
decides the order are in its header; SCRIPT.py:NAME may also be the source of the run. The
first step that is wrong is shown. The exit code is 0 only if all is well.

for example:
  sweephand audit run/receipts train.npz
  sweephand audit run/receipts train.npz --content
  sweephand audit run/receipts train.py:source --json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweephand import Attention, MinibatchSource
from sweephand.ext.follow.receipts import audit, read_receipts
from sweephand.extend import (
    Answer,
    Screen,
    add_corpus,
    flag,
    in_count,
    layout_by_name,
    open_either,
    option,
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("receipts", metavar="RECEIPTS", type=Path, help="their folder")
    add_corpus(parser)
    flag(parser, "--content", "also read the data, if their hashes are there")
    option(parser, "--events FILE", Path, "that the run has written or was given")
    option(parser, "--head HEX", str, "the last link of the chain, as the run has shown it")


def run(arguments: argparse.Namespace, screen: Screen) -> Answer:
    """Run the command and return its facts."""
    folder: Path = arguments.receipts
    with _source(folder, arguments) as source:
        found = audit(folder, source, content=arguments.content, head=arguments.head)
    wrong = found.mismatch
    screen.facts(
        {
            "receipts": str(folder),
            "steps": in_count(found.num_steps),
            "samples": in_count(found.num_samples),
            "head": found.head,
            "found": "all as derived" if wrong is None else f"NOT as derived: {wrong}",
        }
    )
    return {"ok": found.ok, "receipts": str(folder), **asdict(found)}


def _source(folder: Path, arguments: argparse.Namespace) -> MinibatchSource:
    """Return the source that a script names, or one over a corpus by the options of the header.

    Events are in no header. ValueError is raised if it has options of no source.
    """
    header = read_receipts(folder)[0]
    corpus = open_either(arguments)
    if isinstance(corpus, MinibatchSource):
        return corpus
    options = dict(header.options)
    try:
        for name in ("layout", "balance"):
            options[name] = _layout_or_cost(options[name])
        return MinibatchSource(corpus, events=arguments.events, **options)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the header of the receipts has no options: {error}") from error


def _layout_or_cost(fields: Any) -> Any:
    """Return the layout or cost that the fields of a header describe."""
    if not isinstance(fields, dict):
        return fields
    values = dict(fields)
    kind = values.pop("kind")
    return Attention(**values) if kind == "Attention" else layout_by_name(kind, values)
