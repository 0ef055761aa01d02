"""A cache that chunks are read through, as a source sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sweephand import _core

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus
    from sweephand.corpus.reader import Reader

UNKNOWN_CHUNK = 2**64 - 1
"""Stands for the chunks of a member whose sequences come in another order."""


class CacheUse:
    """The use that a source makes of a cache: none."""

    def publish(self, engine: _core.engine.Engine, request: _core.compose.Request) -> None:
        """Publish the nominal time of the source, and its share of the workers."""

    def stats(self) -> dict[str, float]:
        """Return counts since this process began to read."""
        return {}

    def close(self) -> None:
        """Leave the cache."""


@runtime_checkable
class ChunkCache(Protocol):
    """A cache, as users give one to a source: `NodeCache`."""

    def read_through(
        self, corpus: Corpus, make_uses: Callable[[], Any]
    ) -> tuple[Sequence[Reader], CacheUse]:
        """Return readers whose chunks come from the cache where they can."""
