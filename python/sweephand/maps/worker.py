"""A worker process: maps the tasks that it receives until its parent is gone."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweephand import _core
from sweephand.errors import DataError
from sweephand.maps.message import receive, send
from sweephand.maps.progress import PROGRESS_BYTES, Progress

if TYPE_CHECKING:
    from sweephand.maps.task import MapTask


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
    progress = Progress(_core.read.map_segment(board, PROGRESS_BYTES))
    os.close(board)
    process, home = os.getpid(), Path.cwd()
    os.register_at_fork(after_in_child=peer.close)  # who waits here must see that it ends
    known: dict[int, MapTask] = {}
    while True:
        try:
            (number, common, own), _ = receive(peer)
        except (EOFError, OSError):
            return
        answer = _answer(known, number, common, own, progress)
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
    known: dict[int, MapTask], number: int, common: bytes | None, own: Any, progress: Progress
) -> tuple[bool, Any]:
    try:
        if common is not None:
            known[number] = pickle.loads(common)
        task = replace(known[number], **own)
    except BaseException as error:
        return False, f"cannot be loaded in a worker process: {type(error).__name__}: {error}"
    try:
        result = task.do(progress)
    except BaseException as error:
        return False, "".join(traceback.format_exception(error))
    tell_causes(result.wrong)
    return True, result


def tell_causes(wrong: Mapping[int, DataError]) -> None:
    """Write tracebacks into notes, as they do not go to another process."""
    for error in wrong.values():
        if error.__cause__ is not None:
            error.add_note("".join(traceback.format_exception(error.__cause__)).rstrip())
