"""Events in a JSON file, which is whole at any moment and changed by one process at a time.

It is read strictly. The checksum is that of what the JSON means, so spaces and the order of
keys do not matter::

    {"version": 1, "checksum": BLAKE2b-128 of the rest, "events": [...]}

and the rest is the same object without it, its keys sorted, without spaces.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from sweephand.events.event import Event, event_of
from sweephand.run.locks import held
from sweephand.run.writing import replaced_file

_VERSION = 1


def load(path: str | os.PathLike[str]) -> list[Event]:
    """Return the events of a file that `save` or a source wrote.

    ValueError if it is of something else, damaged, or was edited without a new checksum.
    """
    return _read(path, trusted=False)


def save(events: Iterable[Event], path: str | os.PathLike[str]) -> None:
    """Replace the events in a file, at once."""
    with EventFile.changing(path) as file:
        file.write(events)


class EventFile:
    """A file of events, locked against changes by other processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    @contextmanager
    def changing(cls, path: str | os.PathLike[str]) -> Iterator[Self]:
        """Change a file of events, while other processes that want to wait.

        OSError if it cannot be written, or not be locked where it is.
        """
        file = cls(Path(path))
        file.path.parent.mkdir(parents=True, exist_ok=True)
        with held(file.path.with_name(f".{file.path.name}.lock")):
            yield file

    def read(self) -> list[Event]:
        """Return the events of the file, as `load` does; none if there is no file."""
        return load(self.path) if self.path.exists() else []

    def write(self, events: Iterable[Event]) -> None:
        """Replace the events of the file, at once."""
        content = {"version": _VERSION, "events": [event.to_json() for event in events]}
        sealed = {"version": _VERSION, "checksum": _checksum(content), **content}
        text = json.dumps(sealed, indent=1, allow_nan=False) + "\n"
        with replaced_file(self.path) as file:
            file.write(text.encode())


def append(event: Event, path: str | os.PathLike[str]) -> list[Event]:
    """Add an event at the end of a file, and return all."""
    with EventFile.changing(path) as file:
        events = [*file.read(), event]
        file.write(events)
        return events


def renew(path: str | os.PathLike[str]) -> list[Event]:
    """Give a file that was edited by hand the checksum of its events, and return these."""
    with EventFile.changing(path) as file:
        events = _read(path, trusted=True)
        file.write(events)
        return events


def _read(path: str | os.PathLike[str], *, trusted: bool) -> list[Event]:
    """Return the events of a file, whose checksum does not matter if it is trusted."""
    try:
        return _from_text(Path(path).read_text(encoding="utf-8"), trusted=trusted)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def _from_text(text: str, *, trusted: bool) -> list[Event]:
    """Return the events of a text; TypeError or ValueError if they are not events."""
    try:
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
        if not isinstance(content, dict) or content.get("version") != _VERSION:
            raise ValueError("it is no list of events of version 1")
        found = content.pop("checksum", None)
        if content.keys() != {"version", "events"} or not isinstance(content["events"], list):
            raise ValueError(
                "it has 'version', 'checksum' and a list of 'events', nothing else"
            )
        if not trusted and found != _checksum(content):
            raise ValueError(
                "its checksum is not that of its events: it is damaged, or was edited; look at "
                "it, and 'sweephand events FILE renew' gives it the checksum that it needs"
            )
        return [event_of(one) for one in content["events"]]
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
    except ZeroDivisionError:
        raise ValueError("a weight is divided by 0") from None


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} comes twice")
    return made


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
