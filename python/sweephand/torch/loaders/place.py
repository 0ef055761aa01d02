"""Where a source stands whose minibatches the processes of a loader deliver."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.utils.data import get_worker_info

from sweephand.minibatch.position import Position
from sweephand.torch.loaders.shared_lock import SharedLock
from sweephand.torch.loaders.starts import Start, count_forks, forked, spawned

_MOST_PROGRESS = 2**16
_NUM_PLACES = 2  # the last ones, by number of the placing modulo this
_TIME, _COUNT, _PROGRESS = range(3)
_PLACE = _PROGRESS + _MOST_PROGRESS
_NUM_LOOPS = 64  # the last ones, by number modulo this
_OWN, _PLACED = -1, -2  # where a loop begins that follows none
_NEVER = 2**63 - 1
UNKNOWN = (
    "worker processes of a DataLoader have delivered minibatches of this source, and this "
    "process cannot know how many of them were consumed. Iterate with sh.torch.DataLoader, "
    "which counts them, or without worker processes; or say where to go on: set "
    "source.current_position, or restore a state of the source"
)


class _Loop(NamedTuple):
    """An iteration that nobody counts, which some of its processes have begun.

    Attributes
    ----------
    starter, thread, first : int
        How the first of its processes was started.
    turn : int
        Which iteration of these processes, from 1 on.
    placing : int
        Of the source, that it goes on from.
    begin : int
        Nominal time, that of the end of the one before it; or `_OWN`: where the processes had
        the source when they were started; or `_PLACED`: where the source was placed.
    end : int
        Nominal time.
    """

    starter: int
    thread: int
    first: int
    turn: int
    placing: int
    begin: int
    end: int


_PLACINGS, _LAST_BEGUN, _NUM_BEGUN, _CHANGES, _LOOPS = range(5)
_PLACES = _LOOPS + _NUM_LOOPS * len(_Loop._fields)


class LoaderPlace:
    """What a dataset and its copies in a loader's processes share.

    A loader of ours tells here what was consumed. Other loaders say nothing: then all that is
    known is which of their iterations processes have begun to deliver since the source was
    placed. An iteration that is one sweep leads to the next, whatever was consumed of it.

    The first process that begins an iteration writes down where that begins, and the others
    follow, however late. They know each other by how they were started, and by how many
    iterations each has begun; so it does not matter whether the source was placed, or the next
    iteration begun, in the meantime.
    """

    def __init__(self) -> None:
        self._told: Position | None = None
        self._num_begun = 0  # by this process, that nobody counts
        self._spawned: tuple[int, Start] | None = None
        count_forks()
        self._share_anew()

    def _share_anew(self) -> None:
        self._owner = os.getpid()
        self._placings = 0  # that this copy knows of
        self._changes = 0  # the same
        # Memory that forked and spawned processes share. How often the source was placed; one
        # more than the placing that was last begun from; how many iterations were begun; how
        # often the source was changed; the last iterations; the last places.
        self._shared = torch.zeros(_PLACES + _NUM_PLACES * _PLACE, dtype=torch.int64)
        self._shared.share_memory_()  # type: ignore[no-untyped-call]
        self._lock = SharedLock()

    def _own(self) -> None:
        """Share nothing with the process that a copy came from, unless it is of its loader."""
        if self._owner == os.getpid() or get_worker_info() is not None:
            return
        is_known = self._is_known()
        self._share_anew()
        self._shared[_LAST_BEGUN] = 0 if is_known else 1

    @property
    def is_known(self) -> bool:
        """Whether somebody knows where the next minibatch begins."""
        self._own()
        return self._is_known()

    def _is_known(self) -> bool:
        return self._told is not None or int(self._shared[_LAST_BEGUN]) != 1 + self._placings

    def position(self) -> Position | None:
        """Return where the next minibatch begins, or None if the source itself knows.

        Raises
        ------
        RuntimeError
            If nobody can know.
        """
        self._own()
        if not self._is_known():
            raise RuntimeError(UNKNOWN)
        return self._told

    def come_back(self) -> Position | None:
        """Return the same, and leave it to the source from now on."""
        position = self.position()
        self._told = None
        return position

    def move(self, position: Position) -> None:
        """Begin at another place, also where processes deliver that were started before."""
        count = len(position.progress)
        if count > _MOST_PROGRESS:
            raise ValueError(f"a place of {count} numbers cannot be told to other processes")
        self._own()
        self._told = None
        with self._lock.held():
            self._placings += 1
            place = self._place(self._placings)
            place[_TIME] = position.time
            place[_COUNT] = count
            progress = torch.tensor(position.progress, dtype=torch.int64)
            place[_PROGRESS : _PROGRESS + count] = progress
            self._shared[_PLACINGS] = self._placings

    def change(self) -> None:
        """Say that the source delivers something else: processes that have it must be new."""
        self._own()
        self._changes += 1
        self._shared[_CHANGES] = self._changes

    def _check_unchanged(self) -> None:
        if int(self._shared[_CHANGES]) != self._changes:
            raise RuntimeError(
                "events were added to the source after the processes of this loader had begun, "
                "which do not know them: make a new loader, or one without persistent_workers"
            )

    def tell(self, position: Position) -> None:
        """Say that what is before `position` was consumed."""
        self._told = position

    def is_told(self, position: Position) -> bool:
        """Whether it was this object that was told last."""
        return self._told is position

    def begin(self) -> Position:
        """Return where a process begins to deliver whose loader tells what was consumed."""
        self._told = None
        self._check_unchanged()
        with self._lock.held():
            return self._placed(int(self._shared[_PLACINGS]))

    def join(
        self, worker: int, own: Position, end_of: Callable[[int], int]
    ) -> tuple[Position, bool]:
        """Return where a process begins to deliver what nobody counts, as the others with it.

        Parameters
        ----------
        worker : int
            Which of the loader's; each begins every iteration once.
        own : Position
            Where its copy of the source stands.
        end_of : callable
            Gives the nominal time at which an iteration ends that begins at one.

        Returns
        -------
        Position, bool
            And whether the iteration follows another.
        """
        told, self._told = self._told, None
        self._check_unchanged()
        own = told or own
        self._num_begun += 1
        start = self._start()
        processes = (start.process, start.thread, start.number - worker, self._num_begun)
        with self._lock.held():
            begun = self._begun()
            loop = next((one for one in begun if one[: len(processes)] == processes), None)
            if loop is None:
                loop = self._add(processes, begun, own, end_of)
            return self._begin_of(loop.placing, loop.begin, own), loop.begin >= 0

    def _add(
        self,
        processes: tuple[int, int, int, int],
        begun: list[_Loop],
        own: Position,
        end_of: Callable[[int], int],
    ) -> _Loop:
        """Write down an iteration that this process is the first to begin."""
        is_first = self._num_begun == 1
        placing = self._placings if is_first else int(self._shared[_PLACINGS])
        before = [one for one in begun if (one.starter, one.placing) == (processes[0], placing)]
        begin = before[-1].end if before else _OWN if is_first else _PLACED
        end = min(end_of(self._begin_of(placing, begin, own).time), _NEVER)
        loop = _Loop(*processes, placing, begin, end)
        number = int(self._shared[_NUM_BEGUN])
        self._loops[number % _NUM_LOOPS] = torch.tensor(loop, dtype=torch.int64)
        self._shared[_NUM_BEGUN] = number + 1
        self._shared[_LAST_BEGUN].clamp_(min=1 + placing)
        return loop

    def _begin_of(self, placing: int, begin: int, own: Position) -> Position:
        if begin >= 0:
            return Position(begin)
        return own if begin == _OWN else self._placed(placing)

    def _begun(self) -> list[_Loop]:
        """Return the last iterations that were begun, in the order of that."""
        number = int(self._shared[_NUM_BEGUN])
        loops = self._loops.tolist()
        return [
            _Loop(*loops[one % _NUM_LOOPS])
            for one in range(max(0, number - _NUM_LOOPS), number)
        ]

    def _start(self) -> Start:
        if self._spawned is not None and self._spawned[0] == os.getpid():
            return self._spawned[1]
        return forked()

    def __getstate__(self) -> dict[str, object]:
        # The source that goes with it stands at what was told.
        return self.__dict__ | {"_told": None, "_spawned": spawned()}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _spawned=(os.getpid(), state["_spawned"]))
        count_forks()

    def _placed(self, placing: int) -> Position:
        if placing + _NUM_PLACES <= int(self._shared[_PLACINGS]):
            raise RuntimeError(
                "the source was placed twice while a process of the loader began an iteration; "
                "begin a new one"
            )
        place = self._place(placing)
        progress = place[_PROGRESS : _PROGRESS + int(place[_COUNT])].tolist()
        return Position(int(place[_TIME]), tuple(progress))

    def _place(self, placing: int) -> torch.Tensor:
        begin = _PLACES + placing % _NUM_PLACES * _PLACE
        return self._shared[begin : begin + _PLACE]

    @property
    def _loops(self) -> torch.Tensor:
        return self._shared[_LOOPS:_PLACES].view(_NUM_LOOPS, len(_Loop._fields))
