"""Where a source stands whose minibatches the processes of a loader deliver."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch
from torch.utils.data import get_worker_info

from sweephand import _core

_PLACINGS, _LAST_BEGUN, _TIME, _COUNT, _ENDS = range(5)
_NUM_ENDS = 4  # of the last iterations, by number modulo this
_PROGRESS = _ENDS + _NUM_ENDS
_MOST_PROGRESS = 2**16
_MOST_PROCESSES = 1024
_MARK_BITS = 40  # below the number of an iteration
UNKNOWN = (
    "worker processes of a DataLoader have delivered minibatches of this source, and this "
    "process cannot know how many of them were consumed. Iterate with sh.torch.DataLoader, "
    "which counts them, or without worker processes; or say where to go on: set "
    "source.current_position, or restore a state of the source"
)


class Iteration(NamedTuple):
    """An iteration that nobody counts, as one of a loader's processes sees it.

    Attributes
    ----------
    begin : int or None
        Where the one before it ended, in nominal time; None: it is the first one since the
        source was placed.
    """

    process: int
    entry: int
    number: int
    begin: int | None


class Place:
    """What a dataset and its copies in a loader's processes share.

    A loader of ours tells here what was consumed. Other loaders say nothing: then all that is
    known is which of their iterations processes have begun to deliver since the source was
    placed. An iteration that is one sweep leads to the next, whatever was consumed of it.

    In shared memory stands for every process the iteration that it was last in: its number, and
    a mark that the processes of one iteration have in common, in one integer, so that it is
    read and written at once.
    """

    def __init__(self) -> None:
        self._told: _core.compose.Position | None = None
        self._has_begun = False  # this process, to deliver
        self._share_anew()

    def _share_anew(self) -> None:
        self._owner = os.getpid()
        self._placings = 0  # that this copy knows of
        # Memory that forked and spawned processes share. How often the source was placed; where
        # that was; the placing that was last begun from; where the last iterations end; by
        # process the one that it was in last.
        self._shared = torch.zeros(
            _PROGRESS + _MOST_PROGRESS + _MOST_PROCESSES, dtype=torch.int64
        )
        self._shared.share_memory_()  # type: ignore[no-untyped-call]

    def _own(self) -> None:
        """Share nothing with the process that a copy came from, unless it is of its loader."""
        if self._owner == os.getpid() or get_worker_info() is not None:
            return
        is_known = self._is_known()
        self._share_anew()
        self._shared[_LAST_BEGUN] = 0 if is_known else 1

    def _is_known(self) -> bool:
        return self._told is not None or int(self._shared[_LAST_BEGUN]) != 1 + self._placings

    def position(self) -> _core.compose.Position | None:
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

    def come_back(self) -> _core.compose.Position | None:
        """Return the same, and leave it to the source from now on."""
        position = self.position()
        self._told = None
        return position

    def move(self, position: _core.compose.Position) -> None:
        """Begin at another place, also where processes deliver that were started before."""
        count = len(position.progress)
        if count > _MOST_PROGRESS:
            raise ValueError(f"a place of {count} numbers cannot be told to other processes")
        self._own()
        self._told = None
        self._placings += 1
        self._shared[_TIME] = position.time
        self._shared[_COUNT] = count
        progress = torch.tensor(position.progress, dtype=torch.int64)
        self._shared[_PROGRESS : _PROGRESS + count] = progress
        self._iterations.zero_()
        self._shared[_PLACINGS] = self._placings

    def tell(self, position: _core.compose.Position) -> None:
        """Say that what is before `position` was consumed."""
        self._told = position

    def is_told(self, position: _core.compose.Position) -> bool:
        """Whether it was this object that was told last."""
        return self._told is position

    def begin(self, *, counted: bool) -> _core.compose.Position | None:
        """Return where a process begins to deliver, or None: where its copy of the source is.

        Parameters
        ----------
        counted : bool
            The loader tells what was consumed.
        """
        told, self._told = self._told, None
        persists, self._has_begun = self._has_begun, True
        if counted or (persists and int(self._shared[_PLACINGS]) != self._placings):
            self._placings = int(self._shared[_PLACINGS])
            told = self._placed()
        if not counted:
            self._shared[_LAST_BEGUN].clamp_(min=1 + self._placings)
        return told

    def join(self, process: int, mark: int) -> Iteration:
        """Return the iteration that a process begins: that of the others with its mark, or new.

        Parameters
        ----------
        process : int
            Which of the loader's; each begins every iteration once.
        mark : int
            What the loader gave all its processes for an iteration.
        """
        seen = self._iterations.tolist()
        mark %= 2**_MARK_BITS
        number = max(seen) >> _MARK_BITS
        is_own = seen[process] >> _MARK_BITS == number
        if is_own or (number << _MARK_BITS | mark) not in seen:
            number += 1
        begin = int(self._shared[_ENDS + (number - 1) % _NUM_ENDS]) if number > 1 else None
        return Iteration(process, number << _MARK_BITS | mark, number, begin)

    def enter(self, iteration: Iteration, end: int) -> None:
        """Say where an iteration ends, in nominal time, and that the process is in it."""
        self._shared[_ENDS + iteration.number % _NUM_ENDS] = end
        self._iterations[iteration.process] = iteration.entry

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_told": None}  # the source that goes with it stands there

    def _placed(self) -> _core.compose.Position:
        count = int(self._shared[_COUNT])
        progress = self._shared[_PROGRESS : _PROGRESS + count].tolist()
        return _core.compose.Position(int(self._shared[_TIME]), progress)

    @property
    def _iterations(self) -> torch.Tensor:
        return self._shared[_PROGRESS + _MOST_PROGRESS :]
