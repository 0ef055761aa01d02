"""The events of a timeline, in the order in which they were added."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from sweephand.errors import shown
from sweephand.events.event import Event, MapVersion, event_of


@dataclass(frozen=True)
class EventList:
    """Events, in the order in which they were added."""

    events: tuple[Event, ...] = ()
    # digests of those that other processes added to a file, and this one has not added, too
    of_others: tuple[bytes, ...] = field(default=(), compare=False)

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def with_one(self, event: Event) -> EventList:
        """Return the list with an event at its end."""
        return replace(self, events=(*self.events, event))

    def with_others(self, there: Sequence[Event], event: Event, position: int) -> EventList:
        """Return the list of a source at a position that adds an event to a file.

        What others have added to the file since is taken up, in the order of the file. If that
        has the event, as workers add the same ones, it is not added again.
        """
        left = list(self.events)
        others: list[bytes] = []
        for one in there:
            if left and left[0].digest == one.digest:
                del left[0]
                continue
            if one.at < position:
                raise ValueError(
                    f"another process has added {one.name!r} at {one.at} to the file, before "
                    f"{position}, where this source is: go back first, or make a new source"
                )
            others.append(one.digest)
        if left:
            raise ValueError(
                f"the file no longer has {left[0].name!r} at {left[0].at}, which this source "
                f"goes by: put it back, or make a new source; {event.name!r} is not added"
            )
        pending = [*self.of_others, *others]
        if event.digest not in pending:
            return EventList((*there, event), tuple(pending))
        pending.remove(event.digest)
        return EventList(tuple(there), tuple(pending))

    @cached_property
    def in_time(self) -> list[Event]:
        """The events by their times; of one time, in the order in which they were added."""
        return sorted(self.events, key=lambda event: event.at)

    @property
    def map_versions(self) -> tuple[tuple[int, str, int], ...]:
        """The times from which on maps have other versions, ascending, with their names."""
        versions = (one for one in self.in_time if isinstance(one, MapVersion))
        return tuple((one.at, one.map, one.version) for one in versions)

    @property
    def opening(self) -> list[bytes]:
        """The digests of the events that decide how a corpus is opened."""
        return [one.digest for one in self.events if isinstance(one, MapVersion)]

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits, the same for lists that are one run; "" if it is empty."""
        return digest_of(self.events)

    @property
    def fingerprint(self) -> str:
        """Their number and digest, for a state; "" if there are none."""
        return f"{len(self)} {self.digest}" if self.events else ""

    def split(self, fingerprint: str) -> tuple[EventList, list[Event]] | None:
        """Return the events of a state, and those added since, in time order."""
        count, _, digest = fingerprint.partition(" ")
        number = int(count) if count.isdecimal() else 0
        # Events added later may have earlier times.
        for first in (self.events, tuple(self.in_time)):
            if len(first) >= number and digest_of(first[:number]) == digest:
                since = sorted(first[number:], key=lambda event: event.at)
                return EventList(first[:number]), since
        return None

    def difference(self, fingerprint: str, position: int) -> str:
        """Explain why a state cannot go on with these events; "" if it can.

        Events that were added since may change nothing before its position.
        """
        found = self.split(fingerprint)
        if found is None:
            count = fingerprint.partition(" ")[0]
            if count.isdecimal() and len(self) < int(count):
                return f"there are {count} in the state and {len(self)} here"
            return f"the first {count} here are other ones than those in the state"
        early = next((one for one in found[1] if one.at < position), None)
        if early is None:
            return ""
        return (
            f"{early.name!r} at {early.at} was added since, and changes what came before the "
            f"state's position, {position}"
        )


def digest_of(events: Iterable[Event]) -> str:
    """Return the digest of events that were added in this order; "" of none.

    Bans and skips of one time do the same in any order, and so they have one digest. Of all
    others of one time the order decides what is served.
    """

    def place(event: Event) -> tuple[int, bool, bytes]:
        return event.at, not event.in_any_order, event.digest if event.in_any_order else b""

    parts = [one.at.to_bytes(8, "little") + one.digest for one in sorted(events, key=place)]
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest() if parts else ""


def events_given(given: object) -> tuple[tuple[Event, ...], Path | None]:
    """Return the events that a source is given, and the file where they are kept, if any."""
    if given is None:
        return (), None
    if isinstance(given, str | os.PathLike):
        from sweephand.events import load  # few keep them in a file

        path = Path(os.fspath(given)).absolute()
        return (tuple(load(path)) if path.exists() else ()), path
    if not isinstance(given, Sequence):
        raise TypeError(f"events are a list of events, or a file's path, got {shown(given)}")
    return tuple(map(event_of, given)), None
