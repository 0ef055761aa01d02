"""Events in a JSON file, which is whole at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweephand.events.event import Add, Event, event_of
from sweephand.printable import shown

_VERSION = 1


def load(
    path: str | os.PathLike[str], corpora: Mapping[str, object] | None = None
) -> list[Event]:
    """Return the events of a file.

    Parameters
    ----------
    path : str or path
        A file that `save` or a source wrote.
    corpora : dict, optional
        Name of every corpus that is added to what `Mixture` takes: data are not in the file.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ValueError
        If it is of something else, or a corpus that is added is not given.
    """
    events = read(path)
    try:
        return [_with_data(event, corpora or {}) for event in events]
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def read(path: str | os.PathLike[str]) -> list[Event]:
    """Return the events of a file, without the data of corpora that are added.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ValueError
        If it is of something else.
    """
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(told, dict) or told.get("version") != _VERSION:
            raise ValueError("it is no list of events of version 1")
        return [event_of(one) for one in told["events"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def save(events: Iterable[Event], path: str | os.PathLike[str]) -> None:
    """Write events to a file, in place of what is there, at once."""
    target = Path(path)
    told = {"version": _VERSION, "events": [event.to_json() for event in events]}
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            json.dump(told, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def events_given(given: object) -> tuple[tuple[Event, ...], Path | None]:
    """Return the events that a source is given, and the file where they are kept, if any.

    Raises
    ------
    TypeError, ValueError
        If it is given something else.
    """
    if given is None:
        return (), None
    if isinstance(given, str | os.PathLike):
        path = Path(os.fspath(given)).absolute()
        return (tuple(load(path)) if path.exists() else ()), path
    if not isinstance(given, Sequence):
        raise TypeError(f"events are a list of events, or a file's path, got {shown(given)}")
    return tuple(map(event_of, given)), None


def _with_data(event: Event, corpora: Mapping[str, Any]) -> Event:
    if not isinstance(event, Add):
        return event
    if event.corpus not in corpora:
        raise ValueError(
            f"the corpus {event.corpus!r} is added: events=sh.events.load(path, "
            f"corpora={{{event.corpus!r}: ...}}) gives its data"
        )
    return replace(event, data=corpora[event.corpus])
