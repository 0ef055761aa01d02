"""The workers that train together, and their errors, which are the same on all."""

import pickle
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray


class WorkerError(RuntimeError):
    """Another rank is gone, does not answer, or failed with an unknown type of error.

    Parameters
    ----------
    message : str
        What happened, and what may help.
    ranks : tuple of int
        Those at fault, as far as known.

    Examples
    --------
    >>> error = WorkerError("rank 3 of 8 has left", (3,))
    >>> str(error), error.ranks
    ('rank 3 of 8 has left', (3,))
    """

    code: ClassVar[str] = "lost-worker"

    def __init__(self, message: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message, ranks)  # positional, so that it pickles
        self.ranks = ranks

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class ErrorMessage(NamedTuple):
    """An error, as bytes that other ranks can read."""

    rank: int  # on which it was raised
    said: str  # its type and message, where the rest cannot be read
    pickled: bytes | None  # type and arguments

    @classmethod
    def of(cls, error: BaseException, rank: int) -> Self:
        """Make the message of an error on this rank."""
        kind = type(error)
        try:
            pickled = pickle.dumps((kind, _arguments(error)))
        except Exception:  # its content may raise anything when it is pickled
            pickled = None
        return cls(rank, f"{kind.__name__}: {error}", pickled)

    def error(self) -> Exception:
        """Return the same error with the rank in its message, as every rank raises it."""
        where = f"on rank {self.rank}: "
        try:
            if self.pickled is not None:
                kind, arguments = pickle.loads(self.pickled)
                made = kind(*_prefixed(where, arguments))
                if isinstance(made, Exception) and where in str(made):
                    return made
        except Exception:  # of a type that is not here, or is made otherwise
            pass
        return WorkerError(where + self.said, (self.rank,))


class Agreement(NamedTuple):
    """Agreement of all workers before a step."""

    counts: list[int]  # sums over the workers
    stops: bool  # true if one of them was asked to stop


class Workers:
    """The workers that train together; every one of them makes the same calls in turn.

    This class is a single worker; torch has a subclass for several. As a context it reports an
    error that leaves it to the other workers.
    """

    num_partitions = 1  # how many workers have data of their own
    partition_index = 0  # which of them this is
    rank = 0  # of this process: several may share a model and its data
    counts = True  # of processes with the same data one does
    # Returns the largest of each float over all workers; None where there is one.
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

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sum over all workers of each value."""
        return list(values)

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


def _arguments(error: BaseException) -> tuple[object, ...]:
    # An OSError keeps its file apart.
    if isinstance(error, OSError) and error.filename is not None:
        return (error.errno, error.strerror, error.filename)
    return error.args


def _prefixed(where: str, arguments: tuple[object, ...]) -> list[object]:
    """Put the rank before the first text."""
    extended = list(arguments)
    for i, one in enumerate(extended):
        if isinstance(one, str):
            extended[i] = where + one
            return extended
    return extended
