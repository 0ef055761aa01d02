"""A worker's share of a minibatch: the same before and after it is read."""

from __future__ import annotations

from sweephand import _core
from sweephand.corpus.ids import SequenceIds
from sweephand.minibatch.position import Position


class Share:
    """A worker's share of a minibatch, by its plan."""

    __slots__ = ()

    _plan: _core.compose.Plan | _core.engine.Batch

    @property
    def _ids(self) -> SequenceIds:
        raise NotImplementedError

    @property
    def planned(self) -> _core.compose.Plan | _core.engine.Batch:
        """The plan of the minibatch, as the core has it."""
        return self._plan

    @property
    def position(self) -> Position:
        """Where the global minibatch begins, as `MinibatchSource.position` is set to it."""
        return Position.of(self._plan.begin)

    @property
    def next_position(self) -> Position:
        """Where the minibatch after it begins."""
        return Position.of(self._plan.next)

    @property
    def nominal_time(self) -> int:
        """Where the global minibatch begins, in samples."""
        return self._plan.nominal_time

    @property
    def end_of_sweep(self) -> bool:
        """True if the global minibatch holds the last sequence of a sweep."""
        return self._plan.sweeps_ended > 0

    @property
    def sweeps_ended(self) -> int:
        """How many sweeps end in the global minibatch."""
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

        Returns
        -------
        dict of int
            In the order in which they come; "" is the name for sequences of no file.
        """
        found: dict[str, int] = {}
        sizes = self._plan.sizes().tolist()
        for name, size in zip(self.corpora, sizes, strict=True):
            found[name] = found.get(name, 0) + size
        return found
