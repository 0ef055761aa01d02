"""The workers that train together."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sweephand.train.trainer.worker_error import ErrorMessage


class Agreement(NamedTuple):
    """Agreement of all workers before a step.

    Attributes
    ----------
    counts : list of int
        Sums over the workers.
    stops : bool
        Whether one of them was asked to stop.
    """

    counts: list[int]
    stops: bool


class Workers:
    """The workers that train together; every one of them makes the same calls in turn.

    This is the only worker there is; torch has a subclass for several. As a context it tells
    the others of an error that leaves it.

    Attributes
    ----------
    num_partitions, partition_index : int
        How many workers have data of their own, and which of them this is.
    rank : int
        Of this process: several that share a model have the same data, each its own rank.
    counts : bool
        Whether its samples count: of processes with the same data one does.
    maximum : callable or None
        Returns the largest of each float over all workers; None where there is one.
    """

    num_partitions = 1
    partition_index = 0
    rank = 0
    counts = True
    maximum: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None

    def agree(
        self,
        counts: Sequence[int] = (),
        *,
        error: Exception | None = None,
        stop: bool = False,
        minibatch: object = None,
    ) -> Agreement:
        """Return sums over the workers, or raise the error of any of them, on all.

        A worker gives an error if it cannot go on, `stop` if it was asked to stop, and its
        share of the minibatch that is next: all must have shares of the same.
        """
        if error is not None:
            raise error
        return Agreement(list(counts), stop)

    def sum(self, values: Sequence[int]) -> list[int]:
        """Return the sum over all workers of each value."""
        return list(values)

    def sum_floats(self, values: Sequence[float]) -> list[float]:
        """Return the sum over all workers of each value."""
        return list(values)

    def any(self, vote: bool) -> bool:
        """Return True if any worker votes yes."""
        return vote

    def gather(self, state: Any, *, is_patient: bool = False) -> list[Any]:
        """Return the object of each process, rank 0 first; if patient, wait long for it."""
        return [state]

    def __enter__(self) -> Self:
        """Return the workers."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: there are no other workers."""


def on_first(workers: Workers, action: Callable[[], object]) -> None:
    """Run an action on rank 0 while all wait; if it fails, all raise the same."""
    error = None
    if workers.rank == 0:
        try:
            action()
        except Exception as caught:
            error = caught
    failure: ErrorMessage | None = workers.gather(
        error and ErrorMessage.of(error, 0), is_patient=True
    )[0]
    if error is not None:
        raise error
    if failure is not None:
        raise failure.error()
