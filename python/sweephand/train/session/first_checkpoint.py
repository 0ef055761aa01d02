"""The checkpoint that a session begins with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from sweephand.errors import StateError
from sweephand.events.event import Event
from sweephand.source.events import Events
from sweephand.train.checkpoint.checkpoint import STATE, Checkpoint, read_json
from sweephand.train.checkpoint.checkpoint_store import CheckpointStore, find
from sweephand.train.session.checkpoint_config import Restore


def first_checkpoint(
    store: CheckpointStore, restore: Restore, events: Events, say: Callable[[str], None]
) -> tuple[CheckpointStore, Checkpoint | None]:
    """Return the checkpoint to begin with, or None to begin afresh, and the store to save in.

    Those that events have overtaken are passed over, with a message. A run that continues from
    the newest checkpoint of the store is the same run, whose older ones are removed; anything
    else is a new one. It raises if a checkpoint is required and there is none, or if all are
    damaged.
    """
    if restore is False:
        return store, None
    path = store.folder if restore in (True, "auto") else Path(str(restore)).expanduser()
    overtaken = _overtaken(path, events)
    found = find(path, frozenset(overtaken))
    _report_passed_over(overtaken, found, path, say)
    if found is None and restore != "auto":
        raise FileNotFoundError(
            f"restore={restore!r}, but there is no checkpoint in {path}"
            f"{' that fits the events' if overtaken else ''}"
        )
    if found is not None and found.run is not None and path == store.folder:
        store = replace(store, run=found.run, overtaken=frozenset(overtaken))
    return store, found


def _report_passed_over(
    overtaken: Mapping[int, Event],
    found: Checkpoint | None,
    path: Path,
    say: Callable[[str], None],
) -> None:
    """Report the checkpoints newer than the restored checkpoint, and why they were skipped."""
    oldest = -1 if found is None or found.number is None else found.number
    newer = sorted(number for number in overtaken if number > oldest)
    if newer:
        name = CheckpointStore(path).path
        event = overtaken[newer[-1]]
        passed = name(newer[0]).name
        if len(newer) > 1:
            passed += f" to {name(newer[-1]).name}"
        say(
            f"passing over {passed}, taken without {event.name!r} at {event.at}, which "
            "changes what came before; they stay, and count as the oldest"
        )


def _overtaken(path: Path, events: Events) -> dict[int, Event]:
    """Return the checkpoints of a store that events have overtaken, with such an event each."""
    store = CheckpointStore(path)
    found = {}
    for number in store.numbers() if events and path.is_dir() else []:
        try:
            source = read_json(store.path(number) / STATE).get("source")
            event = None if source is None else events.overtaking(source)
        except StateError:  # damaged, or of another version: reported when it is read
            continue
        if event is not None:
            found[number] = event
    return found
