"""The chunk that a thread is loading, to which its reads belong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class RequestedFile(Protocol):
    """An object of a store."""

    @property
    def path(self) -> str:
        """The URL, as far as it may be shown."""

    @property
    def size(self) -> int:
        """In bytes."""

    @property
    def tag(self) -> str:
        """Changes with the content."""

    @property
    def tells_apart(self) -> bool:
        """True if no other object has the same path, size and tag."""

    def request(self, offset: int, size: int, padding: int = 0) -> NDArray[np.uint8]:
        """Ask the store for bytes."""

    def look(self) -> None:
        """Ask the store if the object is unchanged."""


class Loading(Protocol):
    """A chunk on its way, whose ranges of objects may come from a cache."""

    def fetch(
        self, file: RequestedFile, offset: int, size: int, padding: int
    ) -> NDArray[np.uint8]:
        """Return bytes of an object as `SourceFile.fetch` does."""

    def check_unchanged(self, file: RequestedFile) -> None:
        """Raise StaleError if bytes from the store are not of the listed object."""


_threads = threading.local()


def current() -> Loading | None:
    """Return the loading of this thread, or None."""
    return getattr(_threads, "loading", None)


@contextmanager
def entered(loading: Loading | None) -> Iterator[None]:
    """Have this thread load something for a while."""
    before, _threads.loading = current(), loading
    try:
        yield
    finally:
        _threads.loading = before
