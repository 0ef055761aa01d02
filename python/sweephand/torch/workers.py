"""The processes of torch.distributed."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from sweephand.train.workers import OneWorker, Workers


def find_workers() -> Workers:
    """Return the processes of ``torch.distributed``, or the only one if there are no others."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return ProcessGroup()
    return OneWorker()


class ProcessGroup:
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
        """Return what each worker gave, worker 0 first."""
        states: list[Any] = [None] * self.count
        dist.all_gather_object(states, state, group=self._group)
        return states

    def _reduced(self, values: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(values, group=self._group)
        return values
