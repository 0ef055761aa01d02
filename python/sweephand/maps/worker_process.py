"""Worker processes, as seen by the process whose maps they call."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import time

from sweephand import _core
from sweephand.maps.lost import Lost
from sweephand.maps.message import receive, send
from sweephand.maps.nursery_process import (
    Nursery,
    is_of_main,
    is_stopped,
    preparation,
    socket_pair,
)
from sweephand.maps.progress import PROGRESS_BYTES, Progress
from sweephand.maps.sequence_map import SequenceMap
from sweephand.maps.task import MapResult, MapTask


def check_pickles(wanted: SequenceMap) -> None:
    """Refuse a map that worker processes could not find.

    Raises
    ------
    TypeError
        If the function does not pickle, or is of a main module that has no file.
    """
    advice = (
        "define it by def at the top of a module that can be imported, or write "
        "map_executor='threads'"
    )
    try:
        found = pickle.dumps(wanted)
    except Exception as error:
        raise TypeError(
            f"{wanted} does not pickle, and processes must find it ({error}); {advice}"
        ) from error
    if is_of_main(found) and not preparation():
        raise TypeError(
            f"{wanted} is of a main module that has no file, so processes do not find it; "
            f"{advice}"
        )


class WorkerProcess:
    """Carries out tasks by asking a process, which begins when it is first needed.

    Parameters
    ----------
    nursery : Nursery
    """

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._peer: socket.socket | None = None
        self._worker = 0
        self._progress: Progress | None = None
        self._asked: float | None = None  # since when it has a task
        self._known: set[int] = set()
        self._reason: Lost | None = None

    def do(self, task: MapTask) -> MapResult:
        """Return the result of a task.

        Raises
        ------
        Lost
            If the process ended; the next task begins another one.
        """
        number, common = self._nursery.common(task)
        peer = self._peer
        if peer is None or self._has_ended(peer):
            peer = self._begin(task)
        self._asked = time.monotonic()
        try:
            send(peer, (number, None if number in self._known else common, task.own))
            is_made, found = receive(peer)[0]
        except (EOFError, OSError):
            raise self._ended() from None
        finally:
            self._asked = None
        self._known.add(number)
        if not is_made:
            raise RuntimeError(f"{task.map} {found}")
        return found  # type: ignore[no-any-return]

    def at(self) -> tuple[int | None, float] | None:
        """Return which sequence of its task is mapped, and since when; None: it has no task.

        In place of the sequence comes None if the process is heard of no more since then.
        """
        progress, asked = self._progress, self._asked
        if progress is None:
            return None
        number, since = progress.at
        if number is not None:
            return number, since
        return None if asked is None else (None, max(asked, since))

    @property
    def is_stopped(self) -> bool:
        """True if the process was stopped by a signal."""
        return self._peer is not None and is_stopped(self._worker)

    def give_up(self, lost: Lost | None = None) -> bool:
        """End the process; its waiting caller learns the reason."""
        self._reason = lost
        peer = self._peer
        if peer is not None:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        return True

    def close(self) -> None:
        """Let the process end."""
        if self._peer is not None:
            self._peer.close()

    def _begin(self, task: MapTask) -> socket.socket:
        own, other = socket_pair()
        board = os.memfd_create("sweephand-board")
        try:
            os.ftruncate(board, PROGRESS_BYTES)
            self._progress = Progress(_core.read.map_segment(board, PROGRESS_BYTES))
            with other:
                self._worker = self._nursery.begin((other.fileno(), board), task)
        except BaseException:
            own.close()
            raise
        finally:
            os.close(board)
        self._known.clear()
        self._peer = own
        return own

    def _has_ended(self, peer: socket.socket) -> bool:
        """Return True if the process ended when it had nothing to do."""
        try:
            peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            pass
        self._ended()
        return True

    def _ended(self) -> Lost:
        assert self._peer is not None
        self._peer.close()
        self._peer = None
        where = self.at()
        reason, self._reason = self._reason, None
        code = self._nursery.end(self._worker, at_once=reason is not None)
        self._progress = None
        if reason is not None:
            return reason
        ending = f"killed its worker process (signal {-code})"
        if code >= 0:
            ending = f"ended its worker process (exit code {code})"
        return Lost(ending, None if where is None else where[0])
