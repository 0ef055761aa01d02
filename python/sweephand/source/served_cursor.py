"""Base class of cursors, and the method of sources that asks them, which are written in C."""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from sweephand import _core

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:  # the generated stub has no types for classes in C
    from collections.abc import Callable

    from sweephand.minibatch.contents import Contents
    from sweephand.minibatch.minibatch import Minibatch

    class ServedCursor:
        """The place of a run; the core serves its minibatches once `serve_by` names an engine.

        Attributes
        ----------
        time : int
            That of the core; ``_time()`` unless it serves.
        """

        time: int

        def serve_by(
            self,
            engine: _core.engine.Engine | None,
            kind: type[Minibatch] | None,
            contents: Contents | None,
        ) -> None:
            """Let an engine serve minibatches of a class; None: Python does."""

        def remember(
            self,
            request: _core.compose.Request,
            size: int,
            num_partitions: int,
            partition_index: int,
        ) -> None:
            """Remember a request: the same is served without Python from then on."""

        def serve(
            self,
            request: _core.compose.Request,
            contents: Contents | None = None,
            device: object = None,
        ) -> Minibatch | None:
            """Return the next minibatch; None if no engine serves, or that of a parent process.

            Contents and device are given together.
            """

    def NextMethod(method: Callable[P, R]) -> Callable[P, R]:
        """Return a method that asks the core first."""

else:
    ServedCursor = _core.engine.ServedCursor
    NextMethod = _core.engine.NextMethod


def served_as_before(method: Callable[P, R]) -> Callable[P, R]:
    """Make a source's ``next_minibatch`` call its cursor, without Python, where it can.

    The cursor answers calls that ask as the last one did; the method answers all others, and
    those that are wrong.
    """
    served: Callable[P, R] = NextMethod(method)
    update_wrapper(served, method)
    return served
