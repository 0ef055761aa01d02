"""Worker processes and the server that forks them, as seen by the process that asks them."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sweephand.run import message
from sweephand.run.pool import CLOSED, Worker, WorkerEnded
from sweephand.run.progress import Progress

_START = "import sys; sys.path[:] = {path!r}; from sweephand.run.forked import main; main({fd})"
_END_SECONDS = 5.0
_LOOK_SECONDS = 0.5  # between looks at a server that does not answer
_TRIES = 3  # before it is no accident that it ends
_SILENT_SECONDS = 30.0  # that a worker may be at something else than a call, beyond the limit

Functions = dict[tuple[int, ...], tuple[int, bytes, object]]

_peers: weakref.WeakSet[socket.socket] = weakref.WeakSet()
_servers: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


class _ServerEnded(Exception):
    """The server has ended, and another may begin."""


class ForkServer:
    """The process that forks workers, which end with it. Safe for several threads."""

    def __init__(self, limit: float | None = None) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._peer: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._has_main = False
        self._is_closed = False

    def begin(
        self, descriptors: tuple[int, ...], modules: Sequence[str], *, needs_main: bool
    ) -> int:
        """Return the id of a new worker, which gets its socket and the memory of its progress.

        It will import `modules`, and may need functions of the main module.
        """
        with self._lock:
            if needs_main and not self._has_main:
                self._close()
            for _ in range(_TRIES):
                if self._is_closed:
                    break
                try:
                    if self._peer is None:
                        self._start(needs_main or self._has_main)
                    return int(self._ask(("begin", modules), descriptors))
                except _ServerEnded as error:
                    ended = error
            if self._is_closed:
                raise RuntimeError(CLOSED)
            raise RuntimeError(f"{ended}, {_TRIES} times") from ended

    def end(self, worker: int, *, at_once: bool = False) -> int:
        """Wait until a worker that is about to end has ended, and return its exit code."""
        with self._lock:
            try:
                return int(self._ask(("kill" if at_once else "end", worker)))
            except _ServerEnded:
                return -signal.SIGKILL  # it ended with the server

    def close(self) -> None:
        """End all workers, and wake the threads that wait for the server."""
        self._is_closed = True
        peer = self._peer
        if peer is not None:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._close()

    def _ask(self, request: object, descriptors: tuple[int, ...] = ()) -> Any:
        try:
            if self._peer is None or self._is_closed:  # closed before it could be shut down
                raise EOFError
            message.send(self._peer, request, descriptors)
            self._wait(self._peer)
            return message.receive(self._peer)[0]
        except (EOFError, OSError) as error:
            code = self._close()
            status = "" if code is None else f" (exit code {code})"
            if code is not None and code < 0:
                status = f" (signal {-code})"
            raise _ServerEnded(
                f"the process that begins map workers has ended{status}"
            ) from error
        except BaseException:  # nothing reads its answer any more
            self._close()
            raise

    def _wait(self, peer: socket.socket) -> None:
        """Wait for an answer; a server that was stopped for too long is ended."""
        pause = _LOOK_SECONDS if self._limit is None else min(_LOOK_SECONDS, self._limit / 2)
        stopped: float | None = None
        poll = select.poll()
        poll.register(peer, select.POLLIN)
        while not poll.poll(1000 * pause):
            assert self._process is not None
            now = time.monotonic()
            if self._limit is None or not is_stopped(self._process.pid):
                stopped = None
            elif stopped is None:
                stopped = now
            elif now - stopped > self._limit:
                self._process.kill()

    def _start(self, needs_main: bool) -> None:
        own, other = socket_pair()
        with other:
            code = _START.format(path=sys.path, fd=other.fileno())
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )
        _servers.add(self._process)
        self._peer, self._has_main = own, needs_main
        wrong = self._ask(preparation() if needs_main else None)
        if wrong is not None:
            self._close()
            raise RuntimeError(
                "the main module cannot be run again for map workers; put what it does under "
                f"`if __name__ == '__main__':`, or write map_executor='threads':\n{wrong}"
            )

    def _close(self) -> int | None:
        """End the server, and return its exit code; None: there was none."""
        peer, process = self._peer, self._process
        self._peer = self._process = None
        if peer is None or process is None:
            return None
        peer.close()
        if is_stopped(process.pid):
            process.kill()
        try:
            return process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


class ProcessWorker(Worker):
    """A process, which begins when it is first needed."""

    def __init__(self, server: ForkServer, functions: Functions) -> None:
        super().__init__()
        self._server = server
        self._functions = functions
        self._worker = 0
        self._task_name = ""
        self._known: set[int] = set()

    def ask(self, task: Any) -> None:
        """Send a task; `WorkerEnded` if the process has ended.

        There it is ``task.function(task.argument, progress)``. A function is sent once: it is
        known by the identity of the objects in ``task.function_key``.
        """
        key = tuple(map(id, task.function_key))
        if key not in self._functions:  # with the objects that keep the ids
            number = len(self._functions)
            self._functions[key] = number, pickle.dumps(task.function), task.function_key
        number, pickled, _ = self._functions[key]
        if self.peer is None:
            self._begin(task, pickled)
        assert self.peer is not None
        self._task_name = task.name
        try:
            message.send(
                self.peer, (number, None if number in self._known else pickled, task.argument)
            )
        except OSError:
            raise WorkerEnded from None
        self._known.add(number)

    def answer(self) -> tuple[Any, BaseException | None]:
        """Return the result that has come, or its error; `WorkerEnded` if it ended."""
        assert self.peer is not None
        try:
            is_made, found = message.receive(self.peer)[0]
        except (EOFError, OSError):
            raise WorkerEnded from None
        return (found, None) if is_made else (None, RuntimeError(f"{self._task_name} {found}"))

    def end(self, *, at_once: bool) -> str:
        """End the process, or wait for its end, and return how it ended."""
        self.close()
        code = self._server.end(self._worker, at_once=at_once)
        if code < 0:
            return f"killed its worker process (signal {-code})"
        return f"ended its worker process (exit code {code})"

    @property
    def patience(self) -> float:  # type: ignore[override]
        """Seconds beyond the limit that it may be at something else than a call."""
        return 0.0 if is_stopped(self._worker) else _SILENT_SECONDS

    def _begin(self, task: Any, pickled: bytes) -> None:
        own, other = socket_pair()
        memory = os.memfd_create("sweephand-progress")
        try:
            self.progress = Progress.shared(memory)
            with other:
                self._worker = self._server.begin(
                    (other.fileno(), memory), task.modules, needs_main=b"__main__" in pickled
                )
        except BaseException:
            own.close()
            raise
        finally:
            os.close(memory)
        self.peer = own


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two ends; forked children of this process close the first."""
    _hook_forks()
    own, other = message.socket_pair()
    _peers.add(own)
    return own, other


@cache
def _hook_forks() -> None:
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    """Leave the processes to the parent of this process."""
    for peer in list(_peers):
        peer.close()
    for process in list(_servers):
        process.returncode = 0


def preparation() -> dict[str, Any] | None:
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


def refuse_in_preparation() -> None:
    """Raise RuntimeError if this process runs the main module again for workers."""
    forked = sys.modules.get("sweephand.run.forked")
    if forked is not None and forked.prepares_main:
        raise RuntimeError(
            "a main module that begins map workers is run again by them; put what it does "
            "under `if __name__ == '__main__':`, or write map_executor='threads'"
        )


def is_stopped(process: int) -> bool:
    """Return True if a process was stopped by a signal."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:  # it has ended, or the system does not show it
        return False
    return stat.rpartition(")")[2].split()[0] == "T"
