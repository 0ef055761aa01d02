"""Build the index of a corpus, if its format needs an index.

It is kept in the hidden folder .sweephand of the data; --clean removes it, indexes of other
questions too, and those in the cache folder.

for example:
  sweephand index shards/
  sweephand index shards/ --clean
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from sweephand.cli.options import add_corpus, flag, open_corpus
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.open_path import look_at
from sweephand.files.index_file import clean_indexes
from sweephand.files.paths import AnyPath, as_path
from sweephand.terminal.screen import Screen

_MOST_ERRORS = 10_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)
    flag(parser, "--clean", "remove all indexes instead")


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    if arguments.clean:
        return _clean([as_path(path) for path in arguments.paths], screen)
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


def _clean(paths: Sequence[AnyPath], screen: Screen) -> dict[str, object]:
    """Remove the indexes of folders, or of the folders of files."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    removed: list[str] = []
    for folder in dict.fromkeys(path if path.is_dir() else path.parent for path in paths):
        begins = {f"{folder.__fspath__().rstrip('/')}/"}
        local = folder if isinstance(folder, Path) else None
        if local is not None:
            begins |= {f"{local.resolve()}/", f"{local.absolute()}/"}
        removed += [str(one) for one in clean_indexes(local, begins)]
    screen.lines([f"removed: {one}" for one in removed] or ["there is no index to remove"])
    return {"removed": removed}
