"""Exchanges between ranks that end in time, and name the silent ranks."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from sweephand.torch.distributed.notice_board import NoticeBoard
from sweephand.train.trainer.workers import WorkerError

# Texts in errors of collectives whose other end is gone.
_BROKEN = (
    "gloo",
    "nccl",
    "connection closed by peer",
    "connection reset by peer",
    "processgroup",
)


_KNOWN = "_known_to"  # an attribute of errors: True, or the exchange that has asked
_PATIENCE = timedelta(minutes=30)  # while one rank saves
SIZE = 16  # integers that one sum has room for


class Exchange:
    """Small sums, maxima and objects over the ranks of a group, within a limit in seconds.

    Attributes
    ----------
    rank, num_ranks : int
    number : int
        Of the last sum, the same on all ranks.
    """

    def __init__(self, seconds: float, group: dist.ProcessGroup | None) -> None:
        self._group = _in_main_memory(group)
        # Without torch's dispatcher, which takes as long again as a message.
        self._gloo: Any = self._group._get_backend(torch.device("cpu"))
        self._sum = _options(timedelta(seconds=seconds))
        self._maximum = _options(timedelta(seconds=seconds), dist.ReduceOp.MAX)
        self._board = NoticeBoard(self._group)
        self.rank, self.num_ranks = self._group.rank(), self._group.size()
        self.number = 0
        self._integers = torch.zeros(SIZE, dtype=torch.int64)
        self._memory = self._integers.numpy()

    def sum(self, values: Sequence[int]) -> list[int]:
        """Return the sum over all ranks of each of up to 16 integers."""
        self.number += 1
        count = len(values)
        self._memory[:count] = values
        self._memory[count:] = 0
        self._reduce(self._integers, self._sum)
        found: list[int] = self._memory[:count].tolist()
        return found

    def sum_floats(self, values: Sequence[float]) -> list[float]:
        """Return the sums of numbers over all ranks."""
        numbers = torch.tensor(values, dtype=torch.float64)
        self._reduce(numbers, self._sum)
        return numbers.tolist()

    def maximum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the maxima of numbers over all ranks, in place."""
        self._reduce(torch.from_numpy(values), self._maximum)
        return values

    def gather(self, one: Any, *, is_patient: bool = False) -> list[Any]:
        """Return the object of each rank."""
        patience = _PATIENCE if is_patient else self._sum.timeout
        mine = np.frombuffer(bytearray(pickle.dumps(one)), np.uint8)
        longest = torch.tensor([mine.size])
        self._reduce(longest, _options(patience, dist.ReduceOp.MAX))
        # Rows of zeros but for one's own: the sum has those of all.
        rows = torch.zeros((self.num_ranks, int(longest)), dtype=torch.uint8)
        rows[self.rank, : mine.size] = torch.from_numpy(mine)
        self._reduce(rows, _options(patience))
        return [pickle.loads(row.numpy().tobytes()) for row in rows]

    def post_error(self, error: BaseException) -> None:
        """Leave an error for the other ranks, which find it when exchanges fail."""
        self._board.post(self.number, error)

    def explain(self, error: BaseException, waited: timedelta | None = None) -> Exception:
        """Return why a collective has failed: the error of another rank, or who is silent."""
        seconds = (waited or self._sum.timeout).total_seconds()
        is_late = "timed out" in str(error).lower()
        silent = self._board.ask(self.number, is_late=is_late)
        if isinstance(silent, Exception):
            return self.known(silent)
        who = "another rank"
        if silent:
            who = f"rank{'s' * (len(silent) > 1)} {', '.join(map(str, silent[:16]))}"
        why = f"did not answer within {seconds:g} s" if is_late else "has left"
        lost = WorkerError(
            f"{who} of {self.num_ranks} {why}, at exchange {self.number}; its own output says "
            "why, and training goes on from the last checkpoint",
            silent,
        )
        if silent:
            self._board.post_lost(self.number, lost)
        setattr(lost, _KNOWN, self)  # other ranks may know more: they have boards of their own
        return lost

    @staticmethod
    def known(error: Exception) -> Exception:
        """Mark an error as common to all ranks."""
        setattr(error, _KNOWN, True)
        return error

    def knows(self, error: Exception) -> bool:
        """Return True if an error needs no exchange with the other ranks."""
        return getattr(error, _KNOWN, None) in (True, self)

    def _reduce(self, values: Tensor, how: dist.AllreduceOptions) -> None:
        """Reduce small numbers in place, in main memory, without waiting for a device."""
        self._board.is_waiting = True
        try:
            self._gloo.allreduce([values], how).wait()
        except RuntimeError as error:
            raise self.explain(error, how.timeout) from error
        self._board.is_waiting = False


def _options(
    limit: timedelta, operation: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM
) -> dist.AllreduceOptions:
    """Return how to reduce, and how long to wait for it."""
    options = dist.AllreduceOptions()
    options.timeout = limit
    options.reduceOp = operation  # type: ignore[assignment] # in its stub
    return options


def _in_main_memory(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """Return a group in main memory: the given group if it is, else a new group."""
    ranks = None
    if group is not None:
        try:
            group._get_backend(torch.device("cpu"))
        except RuntimeError:
            ranks = dist.get_process_group_ranks(group)
        else:
            return group
    made: dist.ProcessGroup = dist.new_group(
        ranks,
        backend="gloo",
        timeout=_PATIENCE,
        use_local_synchronization=ranks is not None,
    )
    return made


def is_broken(error: BaseException) -> bool:
    """Return True if an error is that of a collective whose other end is gone."""
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in said for word in _BROKEN)
