"""Train on real text, kill the run, go on, and compare: no data and no network are needed.

The corpus is the functions of Python's standard library; NumPy is enough, and a minute. What is
made stays in the output folder, for the other commands to try.

for example:
  sweephand demo
  sweephand demo --steps 1000 --seed 7 --output /tmp/demo
  sweephand demo --sources ~/src/my-project
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sweephand.cli.options import count, option, whole
from sweephand.cli.picture import picture_paths
from sweephand.demo.library_text import standard_library
from sweephand.demo.story import tell
from sweephand.terminal.screen import Screen

PICTURE = "losses, scales and lengths"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    option(parser, "--steps N", count, "500 by default", 500)
    option(parser, "--size M", count, "bytes in a minibatch, 4096", 4096)
    option(parser, "--seed N", whole, "0 by default", 0)
    output = "where corpus, checkpoint and figure go; sweephand-demo by default"
    option(parser, "--output DIR", Path, output, Path("sweephand-demo"))
    sources = "take the functions of other Python files"
    option(parser, "--sources DIR", Path, sources, standard_library())


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    return tell(
        arguments.sources,
        arguments.output,
        steps=arguments.steps,
        size=arguments.size,
        seed=arguments.seed,
        screen=screen,
        figures=picture_paths(arguments),
    )
