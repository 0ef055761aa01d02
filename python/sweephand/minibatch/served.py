"""Base classes of minibatches, streams and cursors, and a method, which are written in C."""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from sweephand import _core

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:  # the generated stub knows no types of what is written in C
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from sweephand.corpus.streams import StreamInfo
    from sweephand.minibatch.contents import Contents
    from sweephand.minibatch.minibatch import Minibatch
    from sweephand.minibatch.minibatch_data import MinibatchData

    # What a minibatch is made of: its batch, what it has in common with others of its source,
    # and its device.
    Parts = tuple[_core.engine.Batch, Contents, object]

    class ServedBatch:
        """A minibatch as the core makes it; its `_plan` is its batch.

        It is false at the end of data. `num_samples`, `num_sequences`, `nominal_time` and
        `end_of_sweep` are answered before Python looks for them, as are `segment_ids` and
        `position_ids` where they are those of whole sequences. For a name that nobody has
        ``_explain_missing(name)`` is called, which may raise a better error, and for a key that
        nobody has ``_by_other_key(key)``.
        """

        __slots__ = ()

        _parts: Parts

        def __new__(cls, *parts: Any) -> Self:
            """Make one of a batch, the contents of its source, and a device."""

        def __bool__(self) -> bool: ...
        def __getitem__(self, key: Any) -> MinibatchData: ...

    class ServedStream:
        """A stream of a minibatch as the core makes it: by the parts of that, and its key.

        `values`, `offsets` and `mask` are answered before Python looks for them, and made once,
        if they are what the core has; `num_samples` and `num_sequences` always. For a name that
        nobody has ``_explain_missing(name)`` is called.

        Attributes
        ----------
        info : StreamInfo
        """

        info: StreamInfo
        _number: int
        _batch: _core.engine.Batch
        _minibatch_parts: Parts
        _is_grid: bool  # samples are the cells of a grid
        _array: NDArray[Any]  # of samples, cells of a grid, or elements of variable samples
        _laid_out: NDArray[np.generic] | None  # the same, where it is the dense array

        def __new__(cls, *parts: Any) -> Self:
            """Make one of a batch, the contents of its source, a device and a key."""

    class StreamKinds:
        """The class of streams, of each key how it is shown, and if sequences have parts."""

        def __init__(
            self,
            data_class: type[ServedStream],
            streams: dict[
                Any, tuple[int, StreamInfo, np.dtype[Any], tuple[int, ...], bool, bool]
            ],
            has_parts: bool,
        ) -> None: ...

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
            """Remember what was asked for: the same is served without Python."""

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
    ServedBatch = _core.engine.ServedBatch
    ServedStream = _core.engine.ServedStream
    StreamKinds = _core.engine.StreamKinds
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
