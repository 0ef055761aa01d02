"""The bytes that may be under way at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TooBusy(Exception):
    """Other bytes were under way for too long."""


class Flow:
    """The bytes that an event loop has under way.

    Parameters
    ----------
    max_bytes : int
        More than that alone is never under way.
    seconds : float
        How long to wait for others.
    """

    def __init__(self, max_bytes: int, seconds: float) -> None:
        self._max_bytes, self._seconds, self._used = max_bytes, seconds, 0
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def reserved(self, size: int) -> AsyncIterator[None]:
        """Wait until a number of bytes may be under way.

        Raises
        ------
        TooBusy
            If that takes too long, or can never be.
        """
        if size > self._max_bytes:
            raise TooBusy
        try:
            async with asyncio.timeout(self._seconds), self._freed:
                await self._freed.wait_for(lambda: self._used + size <= self._max_bytes)
                self._used += size
        except TimeoutError:
            raise TooBusy from None
        try:
            yield
        finally:
            self._used -= size
            async with self._freed:
                self._freed.notify_all()
