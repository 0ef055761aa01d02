"""What a training session asks of a minibatch source."""

from collections.abc import Iterator
from typing import Protocol

from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.planned_minibatch import PlannedMinibatch


class Source(Protocol):
    """What a session asks of a minibatch source."""

    @property
    def is_infinite(self) -> bool:
        """Whether it never ends."""

    @property
    def num_samples_per_sweep(self) -> int:
        """Samples of one sweep."""

    @property
    def current_position(self) -> int:
        """Where the next minibatch begins, in samples."""

    def plan(self, size: int) -> Iterator[PlannedMinibatch]:
        """Yield what the minibatches of a size would hold from here, over all workers."""

    def next_minibatch(
        self,
        minibatch_size_in_samples: int,
        input_map: None,
        device: object,
        num_data_partitions: int,
        partition_index: int,
    ) -> Minibatch:
        """Return this worker's share of the next minibatch, falsy at the end of data."""

    def get_checkpoint_state(self) -> dict[str, object]:
        """Return its state, as JSON can hold it."""

    def restore_from_checkpoint(self, state: dict[str, object]) -> None:
        """Go back to where a state was taken."""
