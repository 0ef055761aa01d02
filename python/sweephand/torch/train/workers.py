"""The processes of torch.distributed."""

import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from sweephand.train.trainer.workers import Workers


def find_workers() -> Workers:
    """Return the processes of ``torch.distributed``, or the only one if there are no others."""
    if has_group() and dist.get_world_size() > 1:
        return ProcessGroup()
    return Workers()


def has_group() -> bool:
    """Return whether ``torch.distributed`` is initialised here."""
    return dist.is_available() and dist.is_initialized()


def num_processes() -> int:
    """Return how many processes train together, as the group or else the launcher says."""
    if has_group():
        return dist.get_world_size()
    launched = os.environ.get("WORLD_SIZE", "")
    return int(launched) if launched.isdecimal() else 1


def find_share() -> tuple[int, int]:
    """Return how many ranks share every minibatch, and which of them this is.

    Raises
    ------
    RuntimeError
        If several processes were launched and no process group tells them apart.
    """
    if has_group():
        return dist.get_world_size(), dist.get_rank()
    if num_processes() > 1:
        raise RuntimeError(
            f"WORLD_SIZE is {num_processes()}, but torch.distributed is not initialised, so "
            "that every process would get all rows. Call torch.distributed.init_process_group "
            "before the first iteration, or give num_data_partitions and partition_index"
        )
    return 1, 0


class ProcessGroup(Workers):
    """All processes of ``torch.distributed``, through main memory."""

    def __init__(self) -> None:
        self.count = dist.get_world_size()
        self.index = dist.get_rank()
        # Small numbers are exchanged in main memory, so that no device is waited for.
        is_gloo = dist.get_backend() == "gloo"
        self._group = None if is_gloo else dist.new_group(backend="gloo")

    def sum(self, values: Sequence[int]) -> list[int]:
        """Return the sum over all workers of each value."""
        return self._reduced(torch.tensor(values, dtype=torch.int64)).tolist()

    def sum_floats(self, values: Sequence[float]) -> list[float]:
        """Return the sum over all workers of each value."""
        return self._reduced(torch.tensor(values, dtype=torch.float64)).tolist()

    def gather(self, state: Any) -> list[Any]:
        """Return the object of each worker, worker 0 first."""
        states: list[Any] = [None] * self.count
        dist.all_gather_object(states, state, group=self._group)
        return states

    def _reduced(self, values: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(values, group=self._group)
        return values
