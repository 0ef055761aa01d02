"""Base classes of minibatches and of their streams, which are written in C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from sweephand import _core

if TYPE_CHECKING:  # the generated stub has no types for classes in C
    import numpy as np
    from numpy.typing import NDArray

    from sweephand.corpus.streams import StreamInfo
    from sweephand.minibatch.contents import Contents

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
            """Make a minibatch of a batch, the contents of its source, and a device."""

        def __bool__(self) -> bool: ...
        def __getitem__(self, key: Any) -> Any: ...

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
            """Make a stream of a batch, the contents of its source, a device and a key."""

else:
    ServedBatch = _core.engine.ServedBatch
    ServedStream = _core.engine.ServedStream
