"""Show how many waves a log has, and the highest.

for example:
  sweephand waves monday.waves
"""

from __future__ import annotations

import argparse

import sweephand as sh
from sweephand.extend import Answer, Screen


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("log", help="path or URL of a log")


def run(arguments: argparse.Namespace, screen: Screen) -> Answer:
    """Show the facts, and return them for --json."""
    source = sh.MinibatchSource(sh.open(arguments.log), randomize=False, max_sweeps=1)
    highest = [
        float(minibatch["height"].values.max()) for minibatch in source.minibatches(4096)
    ]
    facts = {"waves": source.num_sequences_per_sweep, "highest": max(highest)}
    screen.facts({name: str(one) for name, one in facts.items()})
    return facts
