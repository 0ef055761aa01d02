"""Worker processes, as seen by the process whose maps they call."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

from sweephand.maps.lost import Lost
from sweephand.maps.message import receive, send
from sweephand.maps.sequence_map import SequenceMap
from sweephand.maps.task import Made, MapTask
from sweephand.maps.worker import BOARD, map_board

_START = (
    "import sys; sys.path[:] = {path!r}; from sweephand.maps.nursery import main; main({fd})"
)
_END_SECONDS = 5.0
_MODULES = ["sweephand.maps.measure"]  # which tasks are made of

_peers: weakref.WeakSet[socket.socket] = weakref.WeakSet()
_nurseries: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()
_handlers: list[bool] = []


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
    if _is_of_main(found) and not _preparation():
        raise TypeError(
            f"{wanted} is of a main module that has no file, so processes do not find it; "
            f"{advice}"
        )


class Nursery:
    """What begins worker processes; they end with it. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._commons: dict[tuple[int, ...], tuple[int, bytes, object]] = {}
        self._peer: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._of = os.getpid()
        self._has_main = False
        self._is_closed = False

    def common(self, task: MapTask) -> tuple[int, bytes]:
        """Return what tasks like this one have in common, pickled, and its number."""
        key = task.kind
        with self._lock:
            if key not in self._commons:  # keeps the parts, so that nothing else gets their ids
                common = task.common
                self._commons[key] = len(self._commons), pickle.dumps(common), common
            return self._commons[key][:2]

    def begin(self, descriptors: tuple[int, ...], task: MapTask) -> int:
        """Return the id of a new worker for such tasks, which gets the descriptors.

        Raises
        ------
        RuntimeError
            If no worker can begin.
        """
        _, common = self.common(task)
        with self._lock:
            needs_main = self._has_main or _is_of_main(common)
            modules = [*_MODULES, getattr(task.map.function, "__module__", None) or "builtins"]
            if needs_main and not self._has_main:
                self._close()
            for is_last in (False, True):
                if self._is_closed:
                    raise RuntimeError("the source is closed; make a new one")
                if self._peer is None:
                    self._start(needs_main)
                try:
                    return int(self._ask(("begin", modules), descriptors))
                except RuntimeError:
                    if is_last:
                        raise
        raise AssertionError

    def end(self, worker: int, *, at_once: bool = False) -> int:
        """Wait until a worker that is about to end has ended, and return its exit code."""
        with self._lock:
            try:
                return int(self._ask(("kill" if at_once else "end", worker)))
            except RuntimeError:
                return -signal.SIGKILL  # it ended with the nursery

    def close(self) -> None:
        """End all workers."""
        if self._of != os.getpid():
            return
        with self._lock:
            self._is_closed = True
            self._close()

    def _ask(self, request: object, descriptors: tuple[int, ...] = ()) -> Any:
        try:
            if self._peer is None:
                raise EOFError
            send(self._peer, request, descriptors)
            return receive(self._peer)[0]
        except (EOFError, OSError) as error:
            self._close()
            raise RuntimeError("the process that begins map workers has ended") from error

    def _start(self, needs_main: bool) -> None:
        own, other = _socket_pair()
        with other:
            code = _START.format(path=sys.path, fd=other.fileno())
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )
        _nurseries.add(self._process)
        self._peer, self._has_main = own, needs_main
        wrong = self._ask(_preparation() if needs_main else None)
        if wrong is not None:
            self._close()
            raise RuntimeError(
                "the main module cannot be run again for map workers; put what it does under "
                f"`if __name__ == '__main__':`, or write map_executor='threads':\n{wrong}"
            )

    def _close(self) -> None:
        peer, process = self._peer, self._process
        self._peer = self._process = None
        if peer is None or process is None:
            return
        peer.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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
        self._board: Any = None
        self._known: set[int] = set()
        self._reason: Lost | None = None

    def do(self, task: MapTask) -> Made:
        """Return what becomes of a task.

        Raises
        ------
        Lost
            If the process ended; the next task begins another one.
        """
        number, common = self._nursery.common(task)
        peer = self._peer
        if peer is None or self._has_ended(peer):
            peer = self._begin(task)
        try:
            send(peer, (number, None if number in self._known else common, task.own))
            is_made, found = receive(peer)[0]
        except (EOFError, OSError):
            raise self._ended() from None
        self._known.add(number)
        if not is_made:
            raise RuntimeError(f"{task.map} {found}")
        return found  # type: ignore[no-any-return]

    def at(self) -> tuple[int, float] | None:
        """Return which sequence of its task is mapped, and since when; None: none."""
        board = self._board
        if board is None:
            return None
        number, since = BOARD.unpack_from(board)
        return (number, since) if since else None

    def give_up(self, lost: Lost | None = None) -> bool:
        """Have the process end; who waits for it is told why it did."""
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
        own, other = _socket_pair()
        board = os.memfd_create("sweephand-board")
        try:
            os.ftruncate(board, BOARD.size)
            self._board = map_board(board)
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
        """Return whether the process ended when it had nothing to do."""
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
        self._board = None
        if reason is not None:
            return reason
        told = f"killed its worker process (signal {-code})"
        if code >= 0:
            told = f"ended its worker process (exit code {code})"
        return Lost(told, None if where is None else where[0])


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two ends; a child of this process keeps none of the first ones."""
    if not _handlers:
        _handlers.append(True)
        os.register_at_fork(after_in_child=_forget)
    own, other = socket.socketpair()
    _peers.add(own)
    return own, other


def _forget() -> None:
    """Leave the processes to the one that this one was forked from."""
    for peer in list(_peers):
        peer.close()
    for process in list(_nurseries):
        process.returncode = 0


def _is_of_main(pickled: bytes) -> bool:
    return b"__main__" in pickled


def _preparation() -> dict[str, Any] | None:
    """Return how another process runs the main module again; None if it has no file."""
    from multiprocessing import spawn

    found = spawn.get_preparation_data("sweephand map workers")
    path = found.get("init_main_from_path")
    if "init_main_from_name" not in found and (path is None or not Path(path).exists()):
        return None
    return {
        key: value
        for key, value in found.items()
        if key.startswith(("init_main", "sys_", "dir", "orig_dir"))
    }
