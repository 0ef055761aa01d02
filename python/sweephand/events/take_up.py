"""Events of a file to which several sources and people add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sweephand.events.event import Add, Event
from sweephand.events.event_list import EventList


def take_up(mine: EventList, there: Sequence[Event], event: Event, position: int) -> EventList:
    """Return the list of a source that adds an event to a file.

    What others have added to the file since is taken up, in the order of the file. If that has
    the event, as workers add the same ones, it is not added again.

    Parameters
    ----------
    mine : EventList
        The events of the source.
    there : sequence of Event
        Those of the file.
    event : Event
    position : int
        Where the source is.

    Raises
    ------
    ValueError
        If others added what lies before the position, or a corpus that the source lacks; or if
        the file no longer has an event of the source.
    """
    left = list(mine)
    others: list[Event] = []
    events: list[Event] = []
    for one in there:
        if left and left[0].digest == one.digest:
            events.append(left.pop(0))
            continue
        taken = _same(one, event) or one
        _check(taken, position)
        others.append(taken)
        events.append(taken)
    if left:
        raise ValueError(
            f"the file no longer has {left[0].name!r} at {left[0].at}, which this source goes "
            f"by: put it back, or make a new source; {event.name!r} is not added"
        )
    pending = [*mine.of_others, *(one.digest for one in others)]
    added = next((one for one in others if one is event or _same(one, event)), None)
    digest = event.digest if added is None else added.digest
    if digest in pending:
        pending.remove(digest)
    else:
        events.append(event)
    return EventList(tuple(events), tuple(pending))


def _same(one: Event, event: Event) -> Event | None:
    """Return an event of the file, with its data, if it equals the added event; else None."""
    if isinstance(one, Add) and isinstance(event, Add) and not event.fingerprint:
        with_data = replace(one, data=event.data)
        return with_data if replace(one, fingerprint="").digest == event.digest else None
    return one if one.digest == event.digest else None


def _check(other: Event, position: int) -> None:
    message = f"another process has added {other.name!r} at {other.at} to the file"
    if other.at < position:
        raise ValueError(
            f"{message}, which changes what came before {position}, where this source is: "
            "go back first, or make a new source, MinibatchSource(..., events=FILE)"
        )
    if isinstance(other, Add) and other.data is None:
        raise ValueError(
            f"{message}: this source has no data of the corpus {other.corpus!r}; make a new "
            f"one, events=sh.events.load(FILE, corpora={{{other.corpus!r}: ...}})"
        )
