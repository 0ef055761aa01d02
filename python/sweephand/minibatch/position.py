"""The place of a minibatch on a timeline."""

from __future__ import annotations

from typing import NamedTuple

from sweephand import _core


class Position(NamedTuple):
    """Where a minibatch begins: opaque, but comparable; as JSON it is a list.

    Attributes
    ----------
    time : int
        Nominal time in samples.
    progress : tuple of int
        What the layout needs besides: ``docs/layouts.md``.
    """

    time: int
    progress: tuple[int, ...] = ()

    @classmethod
    def of(cls, position: _core.compose.Position) -> Position:
        """Return a position of the core."""
        return cls(position.time, tuple(position.progress))

    def to_core(self) -> _core.compose.Position:
        """Return the position as the core takes it."""
        return _core.compose.Position(self.time, list(self.progress))
