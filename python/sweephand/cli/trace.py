"""Show the minibatch of a step: its sequences, their times, and a digest of all data.

Steps count from 0. The answer is that of training with this seed, size and window.

for example:
  sweephand trace tokens.npz --step 81920 --size 16384
  sweephand trace tokens.npz --time 1342177280 --size 16384 --seed 7
  sweephand trace tokens.npz --step 12 --size 16384 --workers 8 --rank 3 --json
"""

from __future__ import annotations

import argparse
from typing import Any

from sweephand.cli.options import (
    add_corpus,
    add_order,
    add_size,
    count,
    make_source,
    open_corpus,
    option,
    whole,
)
from sweephand.cli.screen import Screen, in_count
from sweephand.minibatch.content_digest import digest_of
from sweephand.source.limits import INFINITELY_REPEAT
from sweephand.source.source import MinibatchSource


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)
    place = parser.add_mutually_exclusive_group(required=True)
    option(place, "--step N", whole, "the step, counted from 0")
    option(place, "--time T", whole, "the nominal time, in samples")
    add_size(parser, required=True)
    add_order(parser)
    option(parser, "--workers K", count, default=1)
    option(parser, "--rank R", whole, "whose share, with --workers", 0)


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    size = arguments.size
    share = {"num_data_partitions": arguments.workers, "partition_index": arguments.rank}
    with make_source(
        open_corpus(arguments), arguments, max_sweeps=INFINITELY_REPEAT, num_threads=0
    ) as source:
        time = arguments.time
        if time is None:
            time = _time_of(source, size, arguments.step, screen)
        source.current_position = time
        planned = next(source.plan(size, **share))
        minibatch = source.next_minibatch(size, **share)
        facts: dict[str, Any] = {
            "step": arguments.step,
            "nominal_time": minibatch.nominal_time,
            "next_time": source.current_position,
            "sweep": minibatch.nominal_time // source.num_samples_per_sweep,
            "corpus_positions": source.corpus_positions(minibatch.nominal_time),
            "end_of_sweep": minibatch.end_of_sweep,
            "num_sequences": minibatch.num_sequences,
            "num_samples": minibatch.num_samples,
            "global_num_samples": minibatch.global_num_samples,
            "digest": digest_of(minibatch),
            "ids": minibatch.ids,
            "sizes": planned.sizes.tolist(),
        }
    # A mixture has several sweeps.
    sweep = "" if facts["corpus_positions"] else f", in sweep {facts['sweep']}"
    begin, end = facts["nominal_time"], facts["next_time"]
    shown = {} if facts["step"] is None else {"step": in_count(facts["step"])}
    shown["nominal time"] = f"{in_count(begin)} to {in_count(end)}{sweep}"
    for name, place in facts["corpus_positions"].items():
        shown[f"begins in {name} at"] = in_count(place)
    shown["sequences"] = in_count(facts["num_sequences"])
    shown["samples"] = in_count(facts["num_samples"])
    shown["digest"] = facts["digest"]
    if facts["end_of_sweep"]:
        shown["sweep"] = "ends in this step"
    screen.facts(shown)
    screen.heading("Sequences, in order")
    rows = zip(facts["ids"], map(in_count, facts["sizes"]), strict=True)
    screen.table(["id", "samples"], rows)
    return facts


def _time_of(source: MinibatchSource, size: int, step: int, screen: Screen) -> int:
    """Return the nominal time at which a step begins; nothing is read."""
    if source.num_samples_per_sweep == source.num_sequences_per_sweep:  # of one sample each
        return step * size
    time = 0
    with screen.progress("steps", step) as advance:
        for _, planned in zip(range(step), source.plan(size, start=0), strict=False):
            time = planned.nominal_time + planned.global_num_samples
            advance(1)
    return time
