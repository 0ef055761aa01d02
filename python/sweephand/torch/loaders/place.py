"""Where a source is whose minibatches a process of a loader delivers."""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from torch.utils.data import get_worker_info

from sweephand.minibatch.share import Position
from sweephand.run.locks import held

_NEVER = 2**63 - 1
_HEADER = Struct("=qqqqq")
UNKNOWN = (
    "worker processes of a DataLoader have delivered minibatches of this source, and this "
    "process cannot know how many of them were consumed. Iterate with sh.torch.DataLoader, "
    "which counts them, or without worker processes; or say where to go on: set "
    "source.current_position, or restore a state of the source"
)


class _Record(NamedTuple):
    """The numbers that all processes share."""

    placings: int = 0  # times that the source was placed
    # placing, plus 1, from which the last uncounted iteration goes on; 0 before any
    begun: int = 0
    end: int = 0  # nominal time at which that iteration ends
    changes: int = 0  # times that the source was changed
    num_bytes: int = 0  # of the place where the source was placed last, which follows


class LoaderPlace:
    """Shared by a dataset and its copies in a loader's processes, of which the first delivers.

    A loader of ours notes here how much was consumed. Other loaders do not: then it is known
    where the last iteration ends that a process has begun since the source was placed. An
    iteration that is one sweep leads to the next, whatever was consumed of it.

    The first iteration of a process goes on from where the source was when the process was
    started, later ones from where the source was placed, or from the end of the last one.
    """

    def __init__(self) -> None:
        self._consumed: Position | None = None
        self._has_begun = False  # an uncounted iteration of this process
        self._share_anew(_Record())

    def _share_anew(self, record: _Record) -> None:
        self._owner = os.getpid()
        self._at_start = record  # of the processes that are started next, or of this one
        self._placings = record.placings  # that this copy knows of
        self._changes = record.changes  # the same
        descriptor, path = tempfile.mkstemp()
        self._lock = Path(path)  # a file while the lock is held; the record has no name
        self._lock.unlink()
        self._keep(descriptor)
        self._write(record._replace(num_bytes=0))

    def _keep(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        _places.add(self)

    def _own(self) -> None:
        """Share nothing with the process that a copy came from, unless it is of its loader."""
        if self._owner != os.getpid() and get_worker_info() is None:
            self._share_anew(self._at_start)

    def before_start(self) -> None:
        """Note the place for a process that is started now, however late it reads it."""
        self._own()
        self._at_start = self._read()

    @property
    def is_known(self) -> bool:
        """The next minibatch begins at a known place."""
        self._own()
        return self._consumed is not None or self._read().begun != 1 + self._placings

    def position(self) -> Position | None:
        """Return where the next minibatch begins, or None if the source itself knows."""
        if not self.is_known:
            raise RuntimeError(UNKNOWN)
        return self._consumed

    def come_back(self) -> Position | None:
        """Return the same, and leave it to the source from now on."""
        position = self.position()
        self._consumed = None
        return position

    def move(self, position: Position) -> None:
        """Begin at another place, also where processes deliver that were started before."""
        self._own()
        self._consumed = None
        with self._locked() as record:
            self._placings += 1
            place = array("q", [position.time, *position.progress]).tobytes()
            os.pwrite(self._descriptor, place, _HEADER.size)
            self._write(record._replace(placings=self._placings, num_bytes=len(place)))

    def change(self) -> None:
        """Note that the source delivers something else: processes that have it must be new."""
        self._own()
        with self._locked() as record:
            self._changes += 1
            self._write(record._replace(changes=self._changes))

    def note_consumed(self, position: Position) -> None:
        """Note that everything before `position` was consumed."""
        self._consumed = position

    def is_consumed_to(self, position: Position) -> bool:
        """Return True if this object was noted last."""
        return self._consumed is position

    def begin(self) -> Position:
        """Return where an iteration begins whose loader notes how much was consumed."""
        self._consumed = None
        with self._locked() as record:
            self._check_unchanged(record)
            return self._placed(record)

    def join(self, own: Position, end_of: Callable[[int], int]) -> tuple[Position, bool]:
        """Return the begin of an uncounted iteration, and True if it follows another."""
        own, self._consumed = self._consumed or own, None
        is_first, self._has_begun = not self._has_begun, True
        with self._locked() as record:
            self._check_unchanged(record)
            placing = self._placings if is_first else record.placings
            is_last = record.begun <= 1 + placing  # else placed meanwhile, and begun from there
            before = record if is_last else self._at_start
            follows = before.begun == 1 + placing
            if follows:
                position = Position(before.end)
            else:
                position = own if is_first else self._placed(record)
            if is_last:
                end = min(end_of(position.time), _NEVER)
                self._write(record._replace(begun=1 + placing, end=end))
        return position, follows

    def _check_unchanged(self, record: _Record) -> None:
        if record.changes != self._changes:
            raise RuntimeError(
                "events were added to the source after the processes of this loader had begun, "
                "which do not know them: make a new loader, or one without persistent_workers"
            )

    def _placed(self, record: _Record) -> Position:
        place = array("q", os.pread(self._descriptor, record.num_bytes, _HEADER.size))
        return Position(place[0], tuple(place[1:]))

    @contextmanager
    def _locked(self) -> Iterator[_Record]:
        """Lock the record for this process; a killed process releases it."""
        with held(self._lock):
            yield self._read()

    def _read(self) -> _Record:
        return _Record(*_HEADER.unpack(os.pread(self._descriptor, _HEADER.size, 0)))

    def _write(self, record: _Record) -> None:
        os.pwrite(self._descriptor, _HEADER.pack(*record), 0)

    def __getstate__(self) -> dict[str, object]:
        self.before_start()
        # The source that goes with it is at the place that was noted.
        known = {} if self._consumed is None else {"begun": 0}
        state = self.__dict__ | {"_consumed": None, "_has_begun": False}
        state["_at_start"] = self._at_start._replace(**known)
        is_copy = get_spawning_popen() is None  # which shares nothing
        return state | {"_descriptor": None if is_copy else DupFd(self._descriptor)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        descriptor = state.pop("_descriptor")
        self.__dict__.update(state)
        if descriptor is None:
            self._share_anew(self._at_start)
        else:
            self._keep(descriptor.detach())


_places: weakref.WeakSet[LoaderPlace] = weakref.WeakSet()


def _before_fork() -> None:
    for place in list(_places):
        place.before_start()


os.register_at_fork(before=_before_fork)
