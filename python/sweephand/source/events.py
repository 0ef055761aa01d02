"""The events of a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sweephand.events import EventFile, save
from sweephand.events.event import Ban, Event, MapVersion, Skip, Weight, Weights
from sweephand.events.event_list import EventList
from sweephand.source.cursor import Cursor


class Events(Sequence[Event]):
    """Events on the timeline of a source, in the order in which they were added.

    Every method adds one event, `at` a nominal time in samples or else the source's
    `current_position`. Nothing that begins before is changed by it, to the bit. A minibatch
    that could reach over the time of a skip or another version of a map ends there; a ban
    moves no boundary. With a file of events, what other processes have added to it is taken
    up with the next event. A source is unchanged by an error.

    Raises
    ------
    ValueError
        If an event lies before the position, or does not fit the corpus or the layout; or if
        another process added such an event to the file.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(6)}), randomize=False)
    >>> source.events.ban(["array__1", "array__4"])
    >>> minibatch = source.next_minibatch(6)
    >>> minibatch.ids, minibatch.banned_ids, minibatch.global_num_samples
    (['array__0', 'array__2', 'array__3', 'array__5'], ['array__1', 'array__4'], 6)
    """

    def __init__(self, cursor: Cursor, path: Path | None = None) -> None:
        self._cursor = cursor
        self._path = path

    def append(self, event: Event) -> None:
        """Add an event, as the methods that make one do."""
        cursor = self._cursor
        if event.at < cursor.time:
            raise ValueError(
                f"the source stands at {cursor.time}, after {event.name!r} at {event.at}: go "
                "back first, or give it to a new source, MinibatchSource(..., events=[...])"
            )
        if self._path is None:
            cursor.follow(cursor.plan.with_events(self._all.with_one(event)))
            return
        with EventFile.changing(self._path) as file:
            self._append_to(file, event)  # and take up what other processes added there

    @contextmanager
    def trying(self, event: Event) -> Iterator[None]:
        """Let an event happen inside, and take it back afterwards."""
        cursor, before = self._cursor, self._cursor.plan
        cursor.follow(before.with_events(before.events.with_one(event)))
        try:
            yield
        finally:
            cursor.follow(before)

    def _append_to(self, file: EventFile, event: Event) -> None:
        cursor, before = self._cursor, self._cursor.plan
        there = file.read() if file.path.exists() else list(before.events)
        try:
            events = before.events.with_others(there, event, cursor.time)
        except ValueError as error:
            raise ValueError(f"{file.path}: {error}") from error
        cursor.follow(before.with_events(events))
        try:
            if len(events) > len(there) or not file.path.exists():
                file.write(self._all)
        except BaseException:
            cursor.follow(before)  # an event that is not written down has not happened
            raise

    @property
    def _all(self) -> EventList:
        return self._cursor.plan.events

    def ban(self, ids: Sequence[str] | NDArray[Any], at: int | None = None) -> None:
        """Leave sequences out, which keep their places.

        Boundaries, shares, `Minibatch.global_num_samples` and `MinibatchSource.sequence_ids`
        are those of the plan without the ban; `Minibatch.ids` and `Minibatch.num_samples` are
        what is delivered, and `Minibatch.banned_ids` the rest. In a row what follows moves
        up.
        """
        texts = tuple(ids.tolist()) if isinstance(ids, np.ndarray) else ids
        self.append(Ban(ids=texts, at=self._time(at)))  # type: ignore[arg-type] # checked there

    def skip(self, start: int, stop: int) -> None:
        """Deliver nothing that begins in ``[start, stop)``: nominal time jumps.

        What a layout makes as one, a row or a minibatch of a bucket, is skipped as one.
        """
        self.append(Skip(at=start, stop=stop))

    def weights(
        self,
        weights: Mapping[str, Weight] | Sequence[tuple[int, Mapping[str, Weight]]],
        at: int | None = None,
    ) -> None:
        """Change the weights of a mixture; each corpus goes on where it is."""
        self.append(Weights(weights=weights, at=self._time(at)))

    def map_version(self, name: str, version: int, at: int | None = None) -> None:
        """Take another version of a map: one of ``corpus.map(..., versions={2: function})``.

        What it draws is of its version, too.
        """
        self.append(MapVersion(map=name, version=version, at=self._time(at)))

    @property
    def digest(self) -> str:
        """32 hexadecimal digits, the same for lists that are one run; "" if it is empty."""
        return self._all.digest

    def save(self, path: str | Path) -> None:
        """Write the events to a JSON file, which ``events=`` of another source takes."""
        save(self._all, path)

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Event]: ...
    def __getitem__(self, place: int | slice) -> Event | Sequence[Event]:
        """Return an event, or a slice of events."""
        return self._all.events[place]

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        summary = ", ".join(f"{event.name} at {event.at}" for event in self._all.events[:8])
        return f"Events({summary}{', ...' if len(self) > 8 else ''})"

    def _time(self, at: int | None) -> int:
        return self._cursor.time if at is None else at
