"""Build the index of a corpus, if its format needs an index.

It is kept in the hidden folder .sweephand of the data, or in the cache folder. An index that
does not fit the files any more is built anew; the folder may be removed at any time.

for example:
  sweephand index shards/
"""

from __future__ import annotations

import argparse

from sweephand.cli.options import add_corpus, open_corpus
from sweephand.cli.screen import Screen
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.open_path import look_at

_MOST_ERRORS = 10_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    name = look_at(arguments.paths).format.name
    ledger = Ledger(_MOST_ERRORS)
    corpus = open_corpus(arguments).open(ledger)
    if corpus.index is None:
        screen.text(f"{name} needs no index")
    else:
        screen.lines([f"index: {corpus.index}"])
    screen.lines(f"damaged: {error}" for error in ledger.errors)
    return {
        "ok": not ledger.errors,
        "format": name,
        "index": None if corpus.index is None else str(corpus.index),
        "errors": [str(error) for error in ledger.errors],
    }
