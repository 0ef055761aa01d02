"""Plan to forget sequences: when they were seen, and from which checkpoint to replay.

FILE has one id a line, or is a JSON list. Seed, window and layout are those in the
checkpoints; SCRIPT.py:NAME may also be the source of the run. With --write the ban is
added to a file of events: a session whose source has events=FILE goes on from the right
checkpoint by itself, and what comes out is, to the bit, the run that never had them. Nothing
else is changed; --delete deletes the checkpoints that hold them.

for example:
  sweephand forget --ids ids.txt --checkpoints run/checkpoints train.npz
  sweephand forget --ids ids.txt --checkpoints run/checkpoints train.npz --write run/events.json
  sweephand forget --ids ids.txt --checkpoints run/checkpoints train.py:source --json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from sweephand.cli.answers import Answer, WrongUsage
from sweephand.cli.forget_report import facts_of, show
from sweephand.cli.options import (
    add_corpus,
    add_scores,
    add_size,
    count,
    flag,
    open_either,
    option,
)
from sweephand.cli.source_of_state import source_of_state
from sweephand.errors import StateError
from sweephand.events.event import Event
from sweephand.events.event_file import EventFile, changing, read
from sweephand.source.source import MinibatchSource
from sweephand.source.unknown_ids import unknown_id
from sweephand.terminal.numbers import in_count
from sweephand.terminal.screen import Screen
from sweephand.train.checkpoint.checkpoint_store import CheckpointStore
from sweephand.train.forgetting.plan_forgetting import plan_forgetting, unknown_ids
from sweephand.train.forgetting.saved_moment import SavedMoment

_ROWS = 20
_MAX_NAMED = 4


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    option(parser, "--ids FILE", Path, "what to forget", required=True)
    option(parser, "--checkpoints FOLDER", Path, "those of the run", required=True)
    add_corpus(parser)
    option(parser, "--events FILE", Path, "that the run had; else those of --write")
    option(parser, "--write FILE", Path, "add the ban to this file of events")
    flag(parser, "--delete", "delete the checkpoints that hold any of them")
    add_scores(parser)
    add_size(parser, optional="of buckets and truncated rows, which are made by it")
    option(parser, "--rows N", count, f"to show; {_ROWS} by default", _ROWS)


def run(arguments: argparse.Namespace, screen: Screen) -> Answer:
    """Run the command and return its facts."""
    ids = _read_ids(arguments.ids)
    with _source(arguments) as source:
        _check_ids(ids, source)
        found = plan_forgetting(
            ids, arguments.checkpoints, source, minibatch_size=arguments.size
        )
        events = list(source.events)
    written = None
    if arguments.write is not None:
        with changing(arguments.write) as file:
            _check_same(file, events)
            file.write([*events, found.ban] if found.ban else events)
        written = str(arguments.write)
    elif arguments.delete and found.ban is not None:
        raise _wrong("the run would see them again: --delete needs --write, or no ban is left")
    deleted = found.delete_holding() if arguments.delete else []
    facts: Answer = {
        "checkpoints": str(arguments.checkpoints),
        **facts_of(found),
        "written": written,
        "deleted": [str(one) for one in deleted],
    }
    show(facts, arguments.rows, screen)
    return facts


def _read_ids(path: Path) -> list[str]:
    """Return the ids of a file, each once."""
    text = path.read_text(encoding="utf-8-sig")
    if text.lstrip().startswith("["):
        try:
            given = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{path} begins as a JSON list and is none: {error}") from None
        if not all(isinstance(one, str) for one in given):
            raise ValueError(f"{path}: ids are texts, there are others in the list")
    else:
        given = [line.strip() for line in text.splitlines()]
    ids = list(dict.fromkeys(one for one in given if one))
    if not ids:
        raise ValueError(f"{path} has no ids: one a line, or a JSON list")
    return ids


def _check_ids(ids: Sequence[str], source: MinibatchSource) -> None:
    """Refuse ids of which there is no sequence, with those that are near to the first."""
    if unknown := unknown_ids(ids, source):
        message = unknown_id(unknown[0], source.timeline.corpus)
        if others := unknown[1:]:
            some = ", ".join(map(repr, others[:_MAX_NAMED]))
            message += f"; {in_count(len(others))} more are unknown: {some}"
        raise ValueError(message)


def _source(arguments: argparse.Namespace) -> MinibatchSource:
    """Return the source of the run: from a script, or from the states of checkpoints."""
    corpus = open_either(arguments)
    if isinstance(corpus, MinibatchSource):
        if arguments.events is not None:
            raise _wrong("the source of a script has its events: leave --events out")
        return corpus
    events: list[Event] = []
    if arguments.events is not None:
        events = read(arguments.events)
    elif arguments.write is not None and arguments.write.exists():
        events = read(arguments.write)
    state = _newest(arguments.checkpoints).source
    return source_of_state(corpus, state, events, arguments.scores)


def _wrong(message: str) -> WrongUsage:
    usage = "usage: sweephand forget --ids FILE --checkpoints FOLDER PATH [--write FILE]\n"
    return WrongUsage(message, "sweephand forget", usage)


def _newest(folder: Path) -> SavedMoment:
    """Return the newest checkpoint that can be read."""
    store, refused = CheckpointStore(folder), None
    for number in reversed(store.numbers()):
        try:
            return SavedMoment.read(store.path(number), number)
        except StateError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    raise FileNotFoundError(f"there is no checkpoint in {folder}")


def _check_same(file: EventFile, events: Sequence[Event]) -> None:
    """Refuse to write over other events than those that the run has."""
    there = [one.to_json() for one in file.read()]
    if file.path.exists() and there != [one.to_json() for one in events]:
        raise ValueError(
            f"{file.path} has other events than the run: --write needs a new file, or the run's"
        )
