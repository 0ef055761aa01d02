"""Events in a JSON file, which is whole at any moment and changed by one process at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sweephand.dataclass import replace
from sweephand.errors import shown
from sweephand.events.event import Add, Event, event_of
from sweephand.events.event_json import from_text, to_text
from sweephand.run.locks import held
from sweephand.run.writing import replaced_file


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
        If it is of something else, damaged, or was edited without a new checksum; or a corpus
        that is added is not given.
    """
    events = read(path)
    try:
        return [_with_data(event, corpora or {}) for event in events]
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def read(path: str | os.PathLike[str], *, trusted: bool = False) -> list[Event]:
    """Return the events of a file, without the data of corpora that are added.

    Parameters
    ----------
    trusted : bool
        Whether its checksum does not matter.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ValueError
        If it is of something else, damaged, or was edited without a new checksum.
    """
    try:
        return from_text(Path(path).read_text(encoding="utf-8"), trusted=trusted)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def save(events: Iterable[Event], path: str | os.PathLike[str]) -> None:
    """Replace the events in a file, at once."""
    with changing(path) as file:
        file.write(events)


class EventFile:
    """A file of events, locked against changes by other processes: see `changing`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, *, trusted: bool = False) -> list[Event]:
        """Return the events of the file, as `read` does; none if there is no file."""
        return read(self.path, trusted=trusted) if self.path.exists() else []

    def write(self, events: Iterable[Event]) -> None:
        """Replace the events of the file, at once."""
        with replaced_file(self.path) as file:
            file.write(to_text(events).encode())


@contextmanager
def changing(path: str | os.PathLike[str]) -> Iterator[EventFile]:
    """Change a file of events, while other processes that want to wait.

    Raises
    ------
    OSError
        If it cannot be written, or not be locked where it is.
    """
    file = EventFile(Path(path))
    file.path.parent.mkdir(parents=True, exist_ok=True)
    with held(file.path.with_name(f".{file.path.name}.lock")):
        yield file


def append(event: Event, path: str | os.PathLike[str]) -> list[Event]:
    """Add an event at the end of a file, and return all.

    Raises
    ------
    ValueError
        As `load`: what cannot be read is not written over.
    OSError
        As `changing`.
    """
    with changing(path) as file:
        events = [*file.read(), event]
        file.write(events)
        return events


def renew(path: str | os.PathLike[str]) -> list[Event]:
    """Give a file that was edited by hand the checksum of its events, and return these.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ValueError
        If it is no list of events.
    """
    with changing(path) as file:
        events = read(path, trusted=True)
        file.write(events)
        return events


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
