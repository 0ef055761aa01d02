"""Audit receipts: derive every step from the corpus, and compare.

RECEIPTS is the folder that a sh.train.Receipts writes. Seed, window, layout and all else that
decides the order are in its header; SCRIPT.py:NAME may also be the source of the run. The
first step that is wrong is shown, with the parts that differ. The exit code is 0 only if all is
well.

for example:
  sweephand audit run/receipts train.npz
  sweephand audit run/receipts train.npz --content --seed 7
  sweephand audit run/receipts train.py:source --step 81920 --json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweephand import ByScore, MinibatchSource
from sweephand.ext.follow.receipts.audit import ReceiptAudit, audit
from sweephand.ext.follow.receipts.receipt import Header, read_receipts, source_of
from sweephand.extend import (
    Answer,
    Screen,
    add_corpus,
    add_scores,
    flag,
    in_count,
    open_either,
    option,
    whole,
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("receipts", metavar="RECEIPTS", type=Path, help="their folder")
    add_corpus(parser)
    option(parser, "--step N", whole, "derive this step alone, counted from 1")
    flag(parser, "--content", "also read the data, if their hashes are there")
    option(parser, "--seed N", whole, "that the run must have had; else the header's")
    add_scores(parser)
    option(parser, "--events FILE", Path, "that the run has written or was given")
    option(parser, "--head HEX", str, "the last link of the chain, as the run has shown it")
    again = "of a run that did the same again: control and parameters must be equal too"
    option(parser, "--against RECEIPTS", Path, again)
    unsealed = "accept a file that was not closed: its run was killed, or goes on"
    flag(parser, "--allow-unsealed", unsealed)
    jumps = "accept minibatches that begin elsewhere than the one before ended"
    flag(parser, "--allow-jumps", jumps)


def run(arguments: argparse.Namespace, screen: Screen) -> Answer:
    """Run the command and return its facts."""
    header = read_receipts(arguments.receipts)[0].header
    with _source(header, arguments) as source:
        found = audit(
            arguments.receipts,
            source,
            content=arguments.content,
            step=arguments.step,
            head=arguments.head,
            against=arguments.against,
            allow_unsealed=arguments.allow_unsealed,
            allow_jumps=arguments.allow_jumps,
        )
    _show(arguments.receipts, found, screen)
    return {
        "ok": found.ok,
        "receipts": str(arguments.receipts),
        **asdict(found),
        "mismatch": None
        if found.mismatch is None
        else {**asdict(found.mismatch), "told": str(found.mismatch)},
    }


def _source(header: Header, arguments: argparse.Namespace) -> MinibatchSource:
    """Return the source that a script names, or a source with the options of the header."""
    corpus = open_either(arguments)
    if isinstance(corpus, MinibatchSource):
        return corpus
    order = ByScore(arguments.scores) if arguments.scores else None
    return source_of(header, corpus, seed=arguments.seed, order=order, events=arguments.events)


def _show(path: Path, found: ReceiptAudit, screen: Screen) -> None:
    shown: dict[str, Any] = {"receipts": str(path)}
    if found.first_step is not None and found.last_step is not None:
        shown["steps"] = f"{in_count(found.first_step)} to {in_count(found.last_step)}"
    shown |= {
        "sequences": in_count(found.num_sequences),
        "samples": in_count(found.num_samples),
        "jumps": in_count(len(found.jumps)),
        "head": found.head,
    }
    if found.mismatch is None:
        shown["sealed"] = "yes" if found.is_sealed else "no"
        shown["found"] = "all as derived"
    else:
        shown["found"] = f"NOT as derived: {found.mismatch}"
        shown["differs"] = ", ".join(found.mismatch.parts)
        if found.mismatch.ids:
            shown["begins with"] = ", ".join(found.mismatch.ids)
    screen.facts(shown)
