"""A worker process: maps the tasks that it receives until its parent is gone."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from sweephand import _core
from sweephand.errors import DataError
from sweephand.maps.map_turn import MapTurn
from sweephand.maps.message import receive, send

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sweephand.maps.task import MapTask

BOARD = Struct("=qd")
"""What a worker tells while it maps: the number of the sequence in its task, and since when.

That is a time of the clock that all processes have. The number is -1 since a map has returned,
and the time 0 before the first is called.
"""


def map_board(descriptor: int) -> NDArray[np.uint8]:
    """Return the memory in which a worker publishes its progress."""
    board: NDArray[np.uint8] = _core.read.map_segment(descriptor, BOARD.size)
    return board


class _BoardTurn(MapTurn):
    """Publishes its progress to the parent process."""

    def __init__(self, board: NDArray[np.uint8]) -> None:
        super().__init__()
        self._board = memoryview(board)  # type: ignore[arg-type]

    def begin(self, task: MapTask, number: int) -> None:
        super().begin(task, number)
        BOARD.pack_into(self._board, 0, number, time.monotonic())

    def end(self) -> float:
        BOARD.pack_into(self._board, 0, -1, time.monotonic())
        return super().end()


def work(peer: socket.socket, board: int) -> None:
    """Carry out tasks until the other side is gone.

    Parameters
    ----------
    peer : socket
        Brings ``(number, common, own)``: what tasks of a map have in common by its number,
        pickled when it is new here, and what a task has of its own. Takes ``(True, result)``,
        or ``(False, text)`` where there can be none.
    board : int
        Descriptor of the memory in which it tells where it is.
    """
    turn = _BoardTurn(map_board(board))
    os.close(board)
    process, home = os.getpid(), Path.cwd()
    os.register_at_fork(after_in_child=peer.close)  # who waits here must see that it ends
    known: dict[int, MapTask] = {}
    while True:
        try:
            (number, common, own), _ = receive(peer)
        except (EOFError, OSError):
            return
        answer = _answer(known, number, common, own, turn)
        if os.getpid() != process:  # a child that the map forgot to end
            os._exit(0)
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        with contextlib.suppress(OSError):
            os.chdir(home)
        del own
        try:
            send(peer, answer)
        except OSError:
            return


def _answer(
    known: dict[int, MapTask], number: int, common: bytes | None, own: Any, turn: MapTurn
) -> tuple[bool, Any]:
    try:
        if common is not None:
            known[number] = pickle.loads(common)
        task = replace(known[number], **own)
    except BaseException as error:
        return False, f"cannot be loaded in a worker process: {type(error).__name__}: {error}"
    try:
        result = task.do(turn)
    except BaseException as error:
        return False, "".join(traceback.format_exception(error))
    tell_causes(result.wrong)
    return True, result


def tell_causes(wrong: Mapping[int, DataError]) -> None:
    """Write tracebacks into notes, as they do not go to another process."""
    for error in wrong.values():
        if error.__cause__ is not None:
            error.add_note("".join(traceback.format_exception(error.__cause__)).rstrip())
