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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from sweephand.cli.options import (
    add_corpus,
    add_order,
    add_size,
    count,
    delivered_once,
    make_source,
    minibatch_size,
    open_corpus,
    option,
)
from sweephand.deserializers.deserializer import Deserializer, MappedDeserializer
from sweephand.minibatch.content_digest import digest_of, digests_by_id
from sweephand.minibatch.minibatch import Minibatch
from sweephand.mixtures.mixture import Mixture
from sweephand.source.source import MinibatchSource
from sweephand.terminal.numbers import in_count
from sweephand.terminal.screen import Screen

_STEPS_AT_A_PLACE = 3
_SHOWN = 10


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
    looked_at: str
    num_looked_at: int = 0
    broken: list[str] = field(default_factory=list)

    def look(self, kept: bool, where: str) -> None:
        """Note one look."""
        self.num_looked_at += 1
        if not kept:
            self.broken.append(where)


@dataclass
class _Place:
    """A step of the sweep: the state before it, and digests of this and later steps."""

    step: int
    state: str
    digests: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Replay:
    """A new source at places that were passed before."""

    corpus: Deserializer
    arguments: argparse.Namespace
    size: int

    def minibatches(
        self, place: _Place, workers: int = 1, rank: int = 0, num_threads: int = 0
    ) -> Iterator[Minibatch]:
        """Yield as many minibatches as the place remembers, or one worker's shares of them."""
        with make_source(self.corpus, self.arguments, num_threads=num_threads) as source:
            source.restore_from_checkpoint(json.loads(place.state))
            for _ in place.digests:
                yield source.next_minibatch(
                    self.size, num_data_partitions=workers, partition_index=rank
                )


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    corpus = delivered_once(open_corpus(arguments))
    with make_source(corpus, arguments) as source:
        size = minibatch_size(arguments, source.timeline)
        mapped = _check_maps(corpus, arguments, size)
        once, as_planned, places = _read_sweep(source, size, arguments.places, screen)
    replay = _Replay(corpus, arguments, size)
    resumed = _check_resume(replay, places, screen)
    shared = _check_shares(replay, places, arguments.workers, screen)
    checks = [*mapped, once, as_planned, resumed, shared]
    facts: dict[str, Any] = {
        "ok": not any(check.broken for check in checks),
        "size": size,
        "workers": arguments.workers,
        "checks": [
            {
                "promise": check.promise,
                "looked_at": check.num_looked_at,
                "unit": check.looked_at,
                "broken": check.broken[:_SHOWN],
            }
            for check in checks
        ],
    }
    screen.table(
        ["promise", "looked at", "kept"],
        [
            (
                check.promise,
                f"{in_count(check.num_looked_at)} {check.looked_at}",
                f"NO: {check.broken[0]}" if check.broken else "yes",
            )
            for check in checks
        ],
    )
    return facts


def _check_maps(corpus: Deserializer, arguments: argparse.Namespace, size: int) -> list[_Check]:
    """Check every map in turn, up to the first error: the rest may follow from it."""
    checks: list[_Check] = []

    def on_workers(one: Deserializer, number: int) -> MinibatchSource:
        return make_source(one, arguments, num_map_workers=number)

    for mapped in maps_of(corpus):
        check = _Check(f"{mapped.map_} depends on the sequence and its key alone", "sequences")
        checks.append(check)
        for name, is_same in compare(mapped, on_workers, size):
            check.look(is_same, f"two values for the sequence {name!r}")
        if check.broken:
            break
    return checks


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
                places.append(
                    _Place(step, json.dumps(source.get_checkpoint_state(), allow_nan=False))
                )
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
    once.num_looked_at = len(times_seen)
    for sequence in np.flatnonzero(times_seen != 1)[:_SHOWN]:
        once.broken.append(f"sequence {sequence} came {times_seen[sequence]} times")
    return once, as_planned, places


def _check_resume(replay: _Replay, places: list[_Place], screen: Screen) -> _Check:
    check = _Check("a restored state goes on with the same minibatches", "minibatches")
    with screen.progress("resume", len(places)) as advance:
        for number, place in enumerate(places):
            minibatches = replay.minibatches(place, num_threads=number % 3)
            pairs = zip(place.digests, minibatches, strict=True)
            for step, (digest, minibatch) in enumerate(pairs, place.step):
                check.look(digest_of(minibatch) == digest, f"step {step}, from {place.step}")
            advance(1)
    return check


def _check_shares(
    replay: _Replay, places: list[_Place], workers: int, screen: Screen
) -> _Check:
    check = _Check(f"the shares of {workers} workers unite to the minibatch", "minibatches")
    with screen.progress("shares", len(places)) as advance:
        for place in places:
            whole = replay.minibatches(place)
            shares = [replay.minibatches(place, workers, rank) for rank in range(workers)]
            for step, (minibatch, *parts) in enumerate(
                zip(whole, *shares, strict=True), place.step
            ):
                held = [digests_by_id(part) for part in parts]
                united = {name: digest for part in held for name, digest in part.items()}
                is_disjoint = len(united) == sum(map(len, held))
                check.look(is_disjoint and united == digests_by_id(minibatch), f"step {step}")
            advance(1)
    return check


_WORKERS = 4
_MOST_MINIBATCHES = 32

MakeSource = Callable[[Deserializer, int], MinibatchSource]
"""Returns a source of a corpus whose maps run on so many workers."""


def maps_of(corpus: Deserializer) -> list[MappedDeserializer]:
    """Return the mapped corpora that a corpus is made of, in the order of their maps."""
    if isinstance(corpus, Mixture):
        return [mapped for one in corpus.deserializers for mapped in maps_of(one)]
    found: list[MappedDeserializer] = []
    one: object = corpus
    while isinstance(one, Deserializer):
        if isinstance(one, MappedDeserializer):
            found.insert(0, one)
        one = getattr(one, "whole", None)
    return found


def compare(
    mapped: MappedDeserializer, make_source: MakeSource, size: int
) -> Iterator[tuple[str, bool]]:
    """Map minibatches twice, on other workers and in minibatches of another size."""
    once = _digests(mapped, make_source, 0, size)
    again = _digests(mapped, make_source, _WORKERS, 2 * size)
    for name in once.keys() & again.keys():
        yield name, once[name] == again[name]


def _digests(
    mapped: MappedDeserializer, make_source: MakeSource, workers: int, size: int
) -> dict[str, str]:
    found: dict[str, str] = {}
    with make_source(mapped, workers) as source:
        for minibatch in islice(source.minibatches(size), _MOST_MINIBATCHES):
            found |= digests_by_id(minibatch)
    return found
