"""A worker's share of a minibatch, planned or read."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.ids import SequenceIds
from sweephand.minibatch.labels import LabelKind


class Share:
    """A worker's share of a minibatch, by its plan: the same before and after it is read."""

    __slots__ = ()

    _plan: _core.compose.Plan | _core.engine.Batch
    _labels: LabelKind
    _ids: SequenceIds

    @property
    def planned(self) -> _core.compose.Plan | _core.engine.Batch:
        """The plan of the minibatch, as the core has it."""
        return self._plan

    @property
    def position(self) -> Position:
        """The begin of the global minibatch, as `MinibatchSource.position` takes it."""
        return Position.of(self._plan.begin)

    @property
    def next_position(self) -> Position:
        """The begin of the minibatch after it."""
        return Position.of(self._plan.next)

    @property
    def nominal_time(self) -> int:
        """The begin of the global minibatch, in samples."""
        return self._plan.nominal_time

    @property
    def end_of_sweep(self) -> bool:
        """True if the global minibatch holds the last sequence of a sweep."""
        return self._plan.sweeps_ended > 0

    @property
    def sweeps_ended(self) -> int:
        """The number of sweeps that end in the global minibatch."""
        return self._plan.sweeps_ended

    @property
    def global_num_samples(self) -> int:
        """Samples over all workers, in the size-defining stream; no communication is needed."""
        return self._plan.num_samples

    @property
    def global_num_sequences(self) -> int:
        """Sequences over all workers, as planned: the divisor of a sum of a loss per sequence.

        Where a layout cuts sequences, each piece counts. Banned ones are not counted, those
        that are skipped as damaged are; no communication is needed.
        """
        return self._plan.counted.pieces

    @property
    def global_num_label_samples(self) -> int:
        """Labels over all workers, as planned: the divisor of a sum of losses.

        ValueError if the lengths of the stream "labels" are not known before it is read.
        """
        return self._labels.count(self._plan.counted)

    @property
    def global_label_weight(self) -> float:
        """Weight of the labels over all workers: the divisor of a sum of weighted losses.

        It equals `global_num_label_samples` without ``StreamDef(label_weights=...)``, and is
        summed in float64 from left to right, of every sequence or piece, then of these by
        nominal time: to the bit the same for any number of workers.
        """
        if self._labels is LabelKind.MASKED:
            return self._plan.counted.label_weight
        return float(self.global_num_label_samples)

    @property
    def num_sequences(self) -> int:
        """Sequences in this worker's share."""
        return self._plan.share_size

    @property
    def num_samples(self) -> int:
        """Samples in this worker's share, in the size-defining stream."""
        return self._plan.share_samples

    @property
    def ids(self) -> list[str]:
        """The id of every sequence of the share."""
        return self._ids.names(self._plan.sequences())

    @property
    def banned_ids(self) -> list[str]:
        """The id of every sequence that events have taken out of the share."""
        return self._ids.names(self._plan.banned())

    @property
    def corpora(self) -> list[str]:
        """The corpus of a mixture, or the file, of every sequence; "" is no file."""
        return self._ids.corpora(self._plan.sequences())

    def num_samples_by(self) -> dict[str, int]:
        """Return the samples of the share by the corpus of a mixture, or the file, they are of.

        They come in the order of the share; "" is the name for sequences of no file.
        """
        found: dict[str, int] = {}
        sizes = self._plan.sizes().tolist()
        for name, size in zip(self.corpora, sizes, strict=True):
            found[name] = found.get(name, 0) + size
        return found


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
        self._ids = ids

    @cached_property
    def sequences(self) -> NDArray[np.uint64]:
        """Number in the corpus of every sequence of the share: uint64, (sequences,)."""
        return self._plan.sequences()

    @cached_property
    def sizes(self) -> NDArray[np.uint32]:
        """Samples of every sequence of the share: uint32, shape (sequences,)."""
        return self._plan.sizes()

    @property
    def shape(self) -> tuple[int, int] | None:
        """(rows, row length) of the share in layouts of rows and of buckets, else None."""
        if not self._plan.row_length:
            return None
        return self._plan.num_rows, self._plan.row_length


class Position(NamedTuple):
    """The begin of a minibatch: opaque, but comparable; as JSON it is a list."""

    time: int  # nominal time in samples
    progress: tuple[int, ...] = ()  # what the layout needs besides: docs/layouts.md

    @classmethod
    def of(cls, position: _core.compose.Position) -> Position:
        return cls(position.time, tuple(position.progress))

    def to_core(self) -> _core.compose.Position:
        return _core.compose.Position(self.time, list(self.progress))
