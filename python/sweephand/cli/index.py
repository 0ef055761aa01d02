"""Build the index of a corpus, where its format needs one.

for example:
  sweephand index shards/
"""

from __future__ import annotations

import argparse

from sweephand.cli.open_path import format_of
from sweephand.cli.options import add_corpus, open_corpus
from sweephand.terminal.screen import Screen

_MOST_ERRORS = 10_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    name = format_of(arguments.path).name
    opened = open_corpus(arguments).open(max_errors=_MOST_ERRORS)
    if opened.index is None:
        screen.text(f"{name} needs no index")
    else:
        screen.text(f"index: {opened.index}")
    for error in opened.errors:
        screen.text(f"damaged: {error}")
    return {
        "ok": not opened.errors,
        "format": name,
        "index": None if opened.index is None else str(opened.index),
        "errors": [str(error) for error in opened.errors],
    }
