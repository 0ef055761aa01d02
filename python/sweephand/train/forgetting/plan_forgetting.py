"""Finds from where a run must be replayed to forget sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from sweephand.errors import StateError, some_of
from sweephand.events.event import Ban
from sweephand.events.event_list import EventList
from sweephand.source.first_times import first_times
from sweephand.source.source import MinibatchSource
from sweephand.source.state import State
from sweephand.train.arguments import check_path, check_source
from sweephand.train.checkpoint.checkpoint import Checkpoint
from sweephand.train.checkpoint.checkpoint_store import CheckpointStore
from sweephand.train.forgetting.forgetting import Forgetting
from sweephand.train.forgetting.saved_moment import SavedMoment


def plan_forgetting(
    ids: Sequence[str],
    checkpoints: str | PathLike[str],
    source: MinibatchSource,
    *,
    minibatch_size: int | None = None,
) -> Forgetting:
    """Plan to forget sequences: when they were first seen, and where a replay begins.

    Nothing is changed, and no data are read. A run that resumes from that checkpoint with the
    ban is, to the bit, the run that had the ban from the start. A `training_session` does so by
    itself, if its source has the events of this one and the ban.

    Parameters
    ----------
    ids : sequence of str
        As in `Minibatch.ids`; the id of a sequence that frames or a map split means all of its
        parts.
    checkpoints : path
        The folder of the run's checkpoints.
    source : MinibatchSource
        Of the same corpus and order, with the events of the run; at any position.
    minibatch_size : int, optional
        Samples of a minibatch over all workers, which must have been constant: needed in
        `Bucketed` and `TruncatedBPTT`.

    Returns
    -------
    Forgetting

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint.
    StateError
        If none can be read, or they were taken of another corpus, order, or other events.
    ValueError
        If there is no sequence with one of the ids, or the minibatch size is missing.

    Examples
    --------
    >>> import tempfile, numpy as np, sweephand as sh
    >>> def squared_error(model, minibatch):
    ...     error = model["m"] - minibatch["x"].values
    ...     return float(error @ error), [2 * error.sum(keepdims=True)]
    >>> model = {"m": np.zeros(1)}
    >>> learner = sh.numpy.SGD(model, sh.learning_parameter_schedule(0.1))
    >>> source = sh.MinibatchSource({"x": np.arange(40.0)}, randomize=False, max_sweeps=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     config = sh.CheckpointConfig(folder, frequency=10, preserve_all=True)
    ...     trainer = sh.Trainer(model, squared_error, learner)
    ...     session = sh.training_session(trainer, source, 5, checkpoint_config=config)
    ...     session.train()
    ...     found = sh.train.plan_forgetting(["array__25"], folder, source)
    >>> found.first_seen, found.position, found.num_minibatches
    ({'array__25': 25}, 20, 4)
    """
    check_path("checkpoints", checkpoints)
    check_source("source", source)
    numbers = _numbers(ids, source)
    size = _size(minibatch_size, source)
    moments, unread = _read(Path(checkpoints).expanduser(), source)
    events = source.timeline.events
    fitting = [one for one in moments if not events.difference(one.events, one.position)]
    first = _Seen(source, size, list(numbers.values()), moments)
    newest = fitting[-1] if fitting else None
    seen = first.times(events, 0 if newest is None else newest.position)
    begin = None
    for moment in reversed(fitting):
        if not first.held_by(moment, events):
            try:
                Checkpoint(moment.folder)
            except StateError as error:
                unread[moment.folder] = str(error)
                continue
            begin = moment
            break
    at = 0 if begin is None else begin.position
    return Forgetting(
        first_seen=dict(zip(numbers, seen, strict=True)),
        replay_from=begin,
        newest=newest,
        ban=_ban(source, numbers, at),
        holding=[one for one in moments if first.held_by(one, _known(events, one))],
        unread=unread,
    )


class _Seen:
    """When sequences came first, with whichever events."""

    def __init__(
        self,
        source: MinibatchSource,
        size: int,
        numbers: list[list[int]],
        moments: list[SavedMoment],
    ) -> None:
        self._source, self._size, self._numbers = source, size, numbers
        self._end = max(one.position for one in moments)
        self._found: dict[str, list[int | None]] = {}

    def times(self, events: EventList, end: int) -> list[int | None]:
        """Return the first times before an end, None for those that do not come."""
        if events.fingerprint not in self._found:
            plan = self._source.timeline.with_events(events)
            self._found[events.fingerprint] = first_times(
                plan, self._numbers, self._end, self._size
            )
        found = self._found[events.fingerprint]
        return [time if time is not None and time < end else None for time in found]

    def held_by(self, moment: SavedMoment, events: EventList) -> bool:
        """Return True if a model has seen any of the sequences when it was saved."""
        return any(time is not None for time in self.times(events, moment.position))


def _known(events: EventList, moment: SavedMoment) -> EventList:
    found = events.split(moment.events)
    assert found is not None
    return found[0]


def unknown_ids(ids: Sequence[str], source: MinibatchSource) -> list[str]:
    """Return the ids of which a source has no sequence."""
    return [name for name in ids if not _numbers_of(name, source)]


def _numbers(ids: Sequence[str], source: MinibatchSource) -> dict[str, list[int]]:
    """Return the numbers of the sequences made of each id."""
    names = Ban(at=0, ids=ids).ids  # type: ignore[arg-type] # checks that they are texts
    if unknown := unknown_ids(names, source):
        raise ValueError(f"no sequence has the id {some_of([*map(repr, unknown)])}")
    if not names:
        raise ValueError("there are no ids to forget")
    return {name: _numbers_of(name, source) for name in names}


def _numbers_of(name: str, source: MinibatchSource) -> list[int]:
    try:
        return source.timeline.corpus.ids.numbers(name)
    except KeyError:
        return []


def _size(given: int | None, source: MinibatchSource) -> int:
    if given is not None:
        source.timeline.request(given, 1, 0)
        return given
    if source.layout.depends_on_size:
        raise ValueError(
            f"with {type(source.layout).__name__} it depends on the minibatch size when a "
            "sequence comes: give minibatch_size, the samples that were asked for in every step"
        )
    return 1


def _read(folder: Path, source: MinibatchSource) -> tuple[list[SavedMoment], dict[Path, str]]:
    """Return the moments of all checkpoints, by their numbers, and which cannot be read."""
    store = CheckpointStore(folder)
    moments = []
    unread: dict[Path, str] = {}
    for number in store.numbers():
        try:
            moments.append(SavedMoment.read(store.path(number), number))
        except StateError as error:
            unread[store.path(number)] = str(error)
    if not moments:
        why = f" that can be read: {unread[max(unread)]}" if unread else ""
        kind = StateError if unread else FileNotFoundError
        raise kind(f"there is no checkpoint in {folder}{why}")
    for moment in reversed(moments):
        _check(moment, source)
    return moments, unread


def _check(moment: SavedMoment, source: MinibatchSource) -> None:
    """Refuse a checkpoint of another corpus or order, or with events that are not here."""
    state, events = State.from_dict(moment.source), source.timeline.events
    known = events.split(state.events)
    try:
        state.check_same_order(source.timeline.state, events if known is None else known[0])
    except StateError as error:
        raise StateError(f"{moment.folder}: {error}") from None


def _ban(source: MinibatchSource, numbers: dict[str, list[int]], at: int) -> Ban | None:
    """Return the ban of sequences that are not banned by then, or None."""
    banned: dict[int, int] = {}
    for time, some in source.timeline.effects.bans:
        for number in some.tolist():
            banned.setdefault(number, time)
    ids = [
        name
        for name, some in numbers.items()
        if any(banned.get(number, math.inf) > at for number in some)
    ]
    return Ban(at=at, ids=tuple(ids)) if ids else None
