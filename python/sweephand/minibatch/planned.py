"""What a minibatch will hold: numbers only, nothing read."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.ids import SequenceIds


class PlannedMinibatch:
    """What one worker will get of one minibatch.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"tokens": (np.arange(10), [0, 3, 7, 10])})
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> [(plan.nominal_time, plan.ids) for plan in source.plan(7)]
    [(0, ['array__0', 'array__1']), (7, ['array__2'])]
    """

    def __init__(self, plan: _core.compose.Plan, ids: SequenceIds) -> None:
        self._plan = plan
        self._ids = ids

    @property
    def nominal_time(self) -> int:
        """Where the global minibatch begins, in samples."""
        return self._plan.nominal_time

    @property
    def global_num_samples(self) -> int:
        """Samples over all workers, in the size-defining stream."""
        return self._plan.num_samples

    @property
    def sweeps_ended(self) -> int:
        """How many sweeps end in the global minibatch."""
        return self._plan.sweeps_ended

    @cached_property
    def sequences(self) -> NDArray[np.uint64]:
        """Number in the corpus of every sequence of the share: uint64, (sequences,)."""
        return self._plan.sequences()

    @cached_property
    def sizes(self) -> NDArray[np.uint32]:
        """Samples of every sequence of the share: uint32, shape (sequences,)."""
        return self._plan.sizes()

    @property
    def num_sequences(self) -> int:
        """Sequences in the share."""
        return len(self.sequences)

    @property
    def num_samples(self) -> int:
        """Samples in the share, in the size-defining stream."""
        return int(self.sizes.sum(dtype=np.int64))

    @property
    def shape(self) -> tuple[int, int] | None:
        """(rows, row length) of the share in layouts of rows and of buckets, else None."""
        if not self._plan.row_length:
            return None
        return self._plan.num_rows, self._plan.row_length

    @property
    def next_position(self) -> _core.compose.Position:
        """Where the minibatch after it begins."""
        return self._plan.next

    @property
    def ids(self) -> list[str]:
        """The id of every sequence of the share."""
        return self._ids.names(self.sequences)
