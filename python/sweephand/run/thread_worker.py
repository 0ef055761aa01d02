"""A thread of a pool."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from sweephand.run.pool import Worker
from sweephand.run.progress import Progress


class ThreadWorker(Worker):
    """A worker thread. It cannot be ended: a thread that takes too long is abandoned."""

    def __init__(self, name: str, carry_out: Callable[[Any, Progress], Any]) -> None:
        super().__init__()
        self._name = name
        self._carry_out = carry_out
        self._tasks: SimpleQueue[Any] = SimpleQueue()
        self._answer: tuple[Any, BaseException | None] = None, None
        self._thread: threading.Thread | None = None

    def ask(self, task: Any) -> None:
        """Send a task."""
        if self._thread is None:
            self.peer, other = socket.socketpair()
            self._thread = threading.Thread(
                target=self._work, args=[other], name=self._name, daemon=True
            )
            self._thread.start()
        self._tasks.put(task)

    def answer(self) -> tuple[Any, BaseException | None]:
        """Return the result of the task, or its error."""
        assert self.peer is not None
        self.peer.recv(1)
        found, self._answer = self._answer, (None, None)
        return found

    def close(self) -> None:
        """Let the thread end after its task."""
        self._tasks.put(None)
        super().close()

    def has_ended(self, seconds: float) -> bool:
        """Wait up to `seconds` for the thread, unless it is the calling thread."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(seconds)
        return not thread.is_alive()

    def _work(self, other: socket.socket) -> None:
        with other:
            while (task := self._tasks.get()) is not None:
                try:
                    self._answer = self._carry_out(task, self.progress), None
                except BaseException as error:
                    self._answer = None, error
                del task  # or it would live until the next one
                with contextlib.suppress(OSError):
                    other.send(b"!")
