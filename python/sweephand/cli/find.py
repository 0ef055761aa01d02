"""Find a sequence on the timeline: its nominal time, and its step for a minibatch size.

for example:
  sweephand find tokens.npz tokens.npz__17
  sweephand find tokens.npz tokens.npz__17 --sweep 3 --size 16384
"""

from __future__ import annotations

import argparse

from sweephand.cli.options import (
    add_corpus,
    add_order,
    count,
    make_source,
    open_corpus,
    option,
    whole,
)
from sweephand.cli.screen import Screen, in_count
from sweephand.source.limits import INFINITELY_REPEAT
from sweephand.source.source import MinibatchSource


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)
    parser.add_argument(
        "id", metavar="ID", help="as info and trace show it, such as shard-0.parquet__17"
    )
    option(parser, "--sweep R", whole, "0 by default", 0)
    option(parser, "--size M", count, "samples in a minibatch: say in which step, too")
    add_order(parser)


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    corpus = open_corpus(arguments)
    with make_source(corpus, arguments, max_sweeps=INFINITELY_REPEAT, num_threads=0) as source:
        time = source.find(arguments.id, arguments.sweep)
        step = None
        if arguments.size is not None:
            step = _step_at(source, arguments.size, time, screen)
    sweep, size = arguments.sweep, arguments.size
    shown = {"id": arguments.id, "sweep": in_count(sweep), "nominal time": in_count(time)}
    if step is not None:
        shown["step"] = f"{in_count(step)}, of {in_count(size)} samples each"
    screen.facts(shown)
    return {
        "id": arguments.id,
        "sweep": sweep,
        "nominal_time": time,
        "size": size,
        "step": step,
    }


def _step_at(source: MinibatchSource, size: int, time: int, screen: Screen) -> int:
    """Return the step that delivers the sample at a nominal time; nothing is read."""
    if source.num_samples_per_sweep == source.num_sequences_per_sweep:  # of one sample each
        return time // size
    step = -1
    with screen.progress("steps", time) as advance:
        for step, planned in enumerate(source.plan(size, start=0)):  # noqa: B007
            if time < planned.nominal_time + planned.global_num_samples:
                break
            advance(planned.global_num_samples)
    return step
