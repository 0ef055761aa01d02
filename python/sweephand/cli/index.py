"""Build the index of a corpus, where its format needs one.

for example:
  sweephand index train.npz
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sweephand.cli.open_path import format_of
from sweephand.terminal.screen import Screen


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("path", metavar="PATH", type=Path, help="the data")


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    found = format_of(arguments.path)
    index = None
    if found.build_index is None:
        screen.text(f"{found.name} needs no index")
    else:
        index = found.build_index(arguments.path)
        screen.text(f"index: {index}")
    return {"ok": True, "format": found.name, "index": None if index is None else str(index)}
