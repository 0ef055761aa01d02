"""Show the events of a timeline, or add to them: bans, skips, weights, versions of maps.

FILE is what MinibatchSource(..., events=FILE) reads, and what source.events writes. Without
more it is shown. A source that runs takes up what is added here when it adds an event itself,
if it has not passed its time: else start it again from a checkpoint at or before the time, or
a new one. The file has a checksum: renew gives one that was edited by hand a new one.

for example:
  sweephand events run/events.json
  sweephand events run/events.json ban web-0.parquet__17 web-3.parquet__2 --at 1_000_000
  sweephand events run/events.json ban --ids poison.txt --at 0
  sweephand events run/events.json skip 1_000_000 1_065_536
  sweephand events run/events.json weights web=3 code=1.5 --at 2_000_000
  sweephand events run/events.json map-version crop 2 --at 5_000_000
  sweephand events run/events.json renew
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from sweephand.cli import Answer, WrongUsage
from sweephand.cli.options import option, whole
from sweephand.cli.screen import Screen, in_count
from sweephand.events.event import Ban, Event, MapVersion, Skip, Weights
from sweephand.events.event_file import append, load, renew
from sweephand.events.event_list import EventList

_RENEW = "renew"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a JSON file of events")
    kinds = [*_KINDS, _RENEW]
    parser.add_argument("kind", metavar="KIND", nargs="?", choices=kinds, help=", ".join(kinds))
    parser.add_argument("words", metavar="WORD", nargs="*", help="what it is about: see above")
    option(parser, "--at T", whole, "nominal time in samples from which on it holds")
    option(parser, "--ids FILE", Path, "of a ban: a text file, an id in each line")


def run(arguments: argparse.Namespace, screen: Screen) -> Answer:
    """Run the command and return its facts."""
    path: Path = arguments.file
    if arguments.kind is None:
        events = EventList(tuple(load(path)))
    elif arguments.kind == _RENEW:
        if arguments.words or arguments.at is not None or arguments.ids is not None:
            raise WrongUsage(f"{_RENEW}: it takes nothing else", "sweephand events", "")
        events = EventList(tuple(renew(path)))
    else:
        events = EventList(tuple(append(_event(arguments), path)))
    facts: Answer = {
        "file": str(path),
        "digest": events.digest,
        "events": [event.to_json() for event in events],
    }
    screen.facts({"file": str(path), "events": in_count(len(events)), "digest": events.digest})
    if len(events):
        screen.heading("In the order of their times")
        rows = [[in_count(one.at), one.name, one.summary] for one in events.in_time]
        screen.table(["at", "event", ""], rows)
    return facts


def _event(arguments: argparse.Namespace) -> Event:
    try:
        if arguments.ids is not None and arguments.kind != "ban":
            raise ValueError("--ids is of a ban")
        return _KINDS[arguments.kind](arguments)
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise WrongUsage(f"{arguments.kind}: {error}", "sweephand events", "") from error


def _at(arguments: argparse.Namespace) -> int:
    if arguments.at is None:
        raise ValueError("say from which nominal time on: --at T")
    return int(arguments.at)


def _ban(arguments: argparse.Namespace) -> Ban:
    ids = list(arguments.words)
    if arguments.ids is not None:
        lines = arguments.ids.read_text(encoding="utf-8", errors="surrogateescape")
        ids += [line for line in lines.splitlines() if line]
    if not ids:
        raise ValueError("name an id, or --ids FILE")
    return Ban(ids=tuple(ids), at=_at(arguments))


def _skip(arguments: argparse.Namespace) -> Skip:
    if len(arguments.words) != 2 or arguments.at is not None:
        raise ValueError("it takes where it begins and where it stops")
    begin, stop = map(whole, arguments.words)
    return Skip(at=begin, stop=stop)


def _weights(arguments: argparse.Namespace) -> Weights:
    pairs = [word.partition("=") for word in arguments.words]
    if not pairs or not all(name and equals for name, equals, _ in pairs):
        raise ValueError("it takes NAME=WEIGHT of every corpus")
    weights = {name: Fraction(weight) for name, _, weight in pairs}
    return Weights(weights=weights, at=_at(arguments))


def _map_version(arguments: argparse.Namespace) -> MapVersion:
    if len(arguments.words) != 2:
        raise ValueError("it takes the name of a map and a version")
    name, version = arguments.words
    return MapVersion(map=name, version=whole(version), at=_at(arguments))


_KINDS: dict[str, Callable[[argparse.Namespace], Event]] = {
    "ban": _ban,
    "skip": _skip,
    "weights": _weights,
    "map-version": _map_version,
}
