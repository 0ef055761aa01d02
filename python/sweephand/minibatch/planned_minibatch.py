"""A minibatch that is planned, known before anything is read."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.ids import SequenceIds
from sweephand.minibatch.label_count import LabelKind
from sweephand.minibatch.share import Share


class PlannedMinibatch(Share):
    """A worker's share of a planned minibatch.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"tokens": (np.arange(10), [0, 3, 7, 10])})
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> [(plan.nominal_time, plan.ids) for plan in source.plan(7)]
    [(0, ['array__0', 'array__1']), (7, ['array__2'])]
    """

    _plan: _core.compose.Plan

    def __init__(
        self,
        plan: _core.compose.Plan,
        ids: SequenceIds,
        labels: LabelKind = LabelKind.SAMPLES,
    ) -> None:
        self._plan = plan
        self._labels = labels
        self._ids_of_corpus = ids

    @property
    def _ids(self) -> SequenceIds:
        return self._ids_of_corpus

    @cached_property
    def sequences(self) -> NDArray[np.uint64]:
        """Number in the corpus of every sequence of the share: uint64, (sequences,)."""
        return self._plan.sequences()

    @cached_property
    def sizes(self) -> NDArray[np.uint32]:
        """Samples of every sequence of the share: uint32, shape (sequences,)."""
        return self._plan.sizes()

    @property
    def global_num_label_samples(self) -> int:
        """Labels over all workers: `Minibatch.global_num_label_samples` of all streams.

        Raises
        ------
        ValueError
            If the lengths of the stream "labels" are not known before it is read.
        """
        return self._labels.count(self._plan.counted)

    @property
    def shape(self) -> tuple[int, int] | None:
        """(rows, row length) of the share in layouts of rows and of buckets, else None."""
        if not self._plan.row_length:
            return None
        return self._plan.num_rows, self._plan.row_length
