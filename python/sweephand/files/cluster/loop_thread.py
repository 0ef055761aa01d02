"""An event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_LAST_SECONDS = 0.01  # in which closed connections end


class LoopThread:
    """A thread that runs coroutines for other threads, until it is closed."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(asyncio.sleep(_LAST_SECONDS))
        self.loop.close()

    @property
    def is_current(self) -> bool:
        """True in the thread itself."""
        return threading.current_thread() is self._thread

    def begin(self, action: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine concurrently; RuntimeError if the thread has ended."""
        try:
            return asyncio.run_coroutine_threadsafe(action, self.loop)
        except RuntimeError:
            action.close()
            raise

    def call(self, action: Coroutine[Any, Any, T], seconds: float) -> T:
        """Run a coroutine, and return its result.

        Raises
        ------
        TimeoutError
            If that takes longer; it is cancelled.
        RuntimeError
            If the thread has ended.
        """
        future = self.begin(action)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise

    def close(self, seconds: float) -> None:
        """End it, with the coroutines that it still runs."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(seconds)
