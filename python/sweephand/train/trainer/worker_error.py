"""An error on its way to the other ranks, on which it is the same."""

from __future__ import annotations

import pickle
from typing import NamedTuple


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

    def __init__(self, message: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message, ranks)  # positional, so that it pickles
        self.ranks = ranks

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class ErrorMessage(NamedTuple):
    """An error, as bytes that other ranks can read.

    Attributes
    ----------
    rank : int
        On which it was raised.
    said : str
        Its type and message, where the rest cannot be read.
    pickled : bytes or None
        Type and arguments.
    """

    rank: int
    said: str
    pickled: bytes | None

    @classmethod
    def of(cls, error: BaseException, rank: int) -> ErrorMessage:
        """Make the message of an error on this rank."""
        kind = type(error)
        try:
            pickled = pickle.dumps((kind, _arguments(error)))
        except Exception:  # what it holds is its own business
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
