"""Read everything once and check the promises of the library on it.

In a sweep every sequence comes exactly once; a state restored at any place gives identical
minibatches, with other threads too; the shares of several workers unite to the minibatch;
what maps give depends on the sequence and its key alone.

for example:
  sweephand verify train.npz
  sweephand verify tokens.npz --size 16384 --workers 8 --places 20
  sweephand verify train.py:corpus
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from sweephand.cli.options import (
    add_corpus,
    add_order,
    add_size,
    count,
    make_source,
    minibatch_size,
    open_corpus,
    option,
)
from sweephand.cli.screen import Screen, in_count
from sweephand.deserializers.deserializer import Deserializer, MappedDeserializer
from sweephand.minibatch.content_digest import digest_of, digests_by_id
from sweephand.minibatch.minibatch import Minibatch
from sweephand.mixtures.mixture import Mixture
from sweephand.source.source import MinibatchSource

_STEPS_AT_A_PLACE = 3
_SHOWN = 10
_MAP_WORKERS = 4
_MAPPED_MINIBATCHES = 32


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)
    add_size(parser)
    add_order(parser)
    option(parser, "--workers K", count, "whose shares are united, 4", 4)
    option(parser, "--places N", count, "where a state is restored, 8", 8)


@dataclass
class _Check:
    """One promise, how often it was looked at, and where it was broken."""

    promise: str
    unit: str
    looked_at: int = 0
    broken: list[str] = field(default_factory=list)

    def look(self, kept: bool, where: str) -> None:
        """Note one look."""
        self.looked_at += 1
        if not kept:
            self.broken.append(where)


@dataclass
class _Place:
    """A step of the sweep: the state before it, and digests of this and later steps."""

    step: int
    state: str
    digests: list[str] = field(default_factory=list)

    def replay(
        self, source: MinibatchSource, size: int, workers: int = 1, rank: int = 0
    ) -> Iterator[Minibatch]:
        """Yield the minibatches again from a new source, or one worker's shares of them."""
        with source:
            source.restore_from_checkpoint(json.loads(self.state))
            for _ in self.digests:
                yield source.next_minibatch(
                    size, num_data_partitions=workers, partition_index=rank
                )


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    corpus, workers = open_corpus(arguments, once=True), arguments.workers
    with make_source(corpus, arguments) as source:
        size = minibatch_size(arguments, source.timeline)
        checks = _check_maps(corpus, arguments, size)
        once, as_planned, places = _read_sweep(source, size, arguments.places, screen)
    resumed = _Check("a restored state goes on with the same minibatches", "minibatches")
    shared = _Check(f"the shares of {workers} workers unite to the minibatch", "minibatches")
    with screen.progress("replay", len(places)) as advance:
        for number, place in enumerate(places):
            where = f"after step {place.step}"
            whole, *of_workers = (
                make_source(corpus, arguments, num_threads=threads)
                for threads in (number % 3, *[0] * workers)
            )
            shares = [
                place.replay(one, size, workers, rank) for rank, one in enumerate(of_workers)
            ]
            for digest, minibatch, *parts in zip(
                place.digests, place.replay(whole, size), *shares, strict=True
            ):
                resumed.look(digest_of(minibatch) == digest, where)
                held = [digests_by_id(part) for part in parts]
                united = {name: digest for part in held for name, digest in part.items()}
                is_disjoint = len(united) == sum(map(len, held))
                shared.look(is_disjoint and united == digests_by_id(minibatch), where)
            advance(1)
    checks += [once, as_planned, resumed, shared]
    screen.table(
        ["promise", "looked at", "kept"],
        [
            (
                check.promise,
                f"{in_count(check.looked_at)} {check.unit}",
                f"NO: {check.broken[0]}" if check.broken else "yes",
            )
            for check in checks
        ],
    )
    return {
        "ok": not any(check.broken for check in checks),
        "size": size,
        "workers": workers,
        "checks": [vars(check) | {"broken": check.broken[:_SHOWN]} for check in checks],
    }


def _check_maps(corpus: Deserializer, arguments: argparse.Namespace, size: int) -> list[_Check]:
    """Map minibatches twice, on other workers and in minibatches of another size.

    Every map is checked in turn, up to the first error: the rest may follow from it.
    """
    checks: list[_Check] = []
    for mapped in _maps_of(corpus):
        check = _Check(f"{mapped.map_} depends on the sequence and its key alone", "sequences")
        checks.append(check)
        found: list[dict[str, str]] = []
        for workers, many in ((0, size), (_MAP_WORKERS, 2 * size)):
            with make_source(mapped, arguments, num_map_workers=workers) as source:
                some = islice(source.minibatches(many), _MAPPED_MINIBATCHES)
                found.append({k: v for one in some for k, v in digests_by_id(one).items()})
        once, again = found
        for name in once.keys() & again.keys():
            check.look(once[name] == again[name], f"two values for the sequence {name!r}")
        if check.broken:
            break
    return checks


def _maps_of(corpus: Deserializer) -> list[MappedDeserializer]:
    """Return the mapped corpora that a corpus is made of, in the order of their maps."""
    if isinstance(corpus, Mixture):
        return [mapped for one in corpus.deserializers for mapped in _maps_of(one)]
    found: list[MappedDeserializer] = []
    one: Any = corpus
    while isinstance(one, Deserializer):
        if isinstance(one, MappedDeserializer) and not one.is_filter:
            found.insert(0, one)
        one = getattr(one, "whole", None)
    return found


def _read_sweep(
    source: MinibatchSource, size: int, num_places: int, screen: Screen
) -> tuple[_Check, _Check, list[_Place]]:
    """Read a sweep, and remember a few places of it."""
    once = _Check("every sequence comes exactly once in a sweep", "sequences")
    as_planned = _Check("minibatches hold what was planned", "steps")
    num_steps = sum(1 for _ in source.plan(size))
    chosen = set(random.sample(range(num_steps), min(num_places, num_steps)))
    times_seen = np.zeros(source.num_sequences_per_sweep, np.int64)
    places: list[_Place] = []
    with screen.progress("read", source.num_samples_per_sweep) as advance:
        for step, planned in enumerate(source.plan(size)):
            if step in chosen:
                state = json.dumps(source.get_checkpoint_state(), allow_nan=False)
                places.append(_Place(step, state))
            minibatch = source.next_minibatch(size)
            np.add.at(times_seen, planned.sequences, 1)
            is_same = minibatch.ids == planned.ids
            is_then = minibatch.nominal_time == planned.nominal_time
            as_planned.look(is_same and is_then, f"step {step}")
            for place in places:
                if step < place.step + _STEPS_AT_A_PLACE:
                    place.digests.append(digest_of(minibatch))
            advance(planned.num_samples)
    as_planned.look(not source.next_minibatch(size), "something comes after the last step")
    once.looked_at = len(times_seen)
    for sequence in np.flatnonzero(times_seen != 1)[:_SHOWN]:
        once.broken.append(f"sequence {sequence} came {times_seen[sequence]} times")
    return once, as_planned, places
