"""A process of a pool, seen from the process that asks it."""

from __future__ import annotations

import os
import pickle
from typing import Any

from sweephand.run.fork_server import ForkServer, is_stopped, socket_pair
from sweephand.run.message import receive, send
from sweephand.run.pool import Worker, WorkerEnded
from sweephand.run.progress import Progress

Functions = dict[tuple[int, ...], tuple[int, bytes, object]]

_SILENT_SECONDS = 30.0  # that a worker may be at something else than a call, beyond the limit


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
            send(self.peer, (number, None if number in self._known else pickled, task.argument))
        except OSError:
            raise WorkerEnded from None
        self._known.add(number)

    def answer(self) -> tuple[Any, BaseException | None]:
        """Return the result that has come, or its error; `WorkerEnded` if it ended."""
        assert self.peer is not None
        try:
            is_made, found = receive(self.peer)[0]
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
