"""A source inside torch's own loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed
import torch.utils.data

from sweephand.minibatch import Minibatch
from sweephand.source import MinibatchSource
from sweephand.streams import name_of
from sweephand.torch.tensors import to_tensor


def tensors_of(minibatch: Minibatch) -> dict[str, torch.Tensor]:
    """Return the streams of a minibatch as tensors.

    Returns
    -------
    dict of Tensor
        For every dense stream its name, with values of shape (samples, *sample shape), and
        ``<name>_offsets``, int64 of shape (sequences + 1,). In a padded layout the name has
        shape (sequences, width, *sample shape), and ``<name>_mask`` says which cells hold data.
        Sparse streams come dense. In packed rows ``segment_ids`` and ``position_ids`` are there
        too, unless streams are called so.
    """
    tensors = {}
    for key, data in minibatch.items():
        name = name_of(key)
        padded = data.is_sparse or data.is_padded
        tensors[name] = to_tensor(data.asarray()) if padded else data.torch("cpu")
        extra = f"{name}_mask" if padded else f"{name}_offsets"
        tensors[extra] = to_tensor(data.mask if padded else data.offsets)
    if hasattr(minibatch, "segment_ids"):
        tensors.setdefault("segment_ids", to_tensor(minibatch.segment_ids))
        tensors.setdefault("position_ids", to_tensor(minibatch.position_ids))
    return tensors


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """Deliver a source's minibatches through a `DataLoader` or a `StatefulDataLoader`.

    The minibatches are whole, so the loader is made with ``batch_size=None``. With
    ``num_workers`` processes, minibatch n comes from process n mod num_workers; each plans all
    steps and assembles only its own, so that they arrive in order, each once.

    One iteration is the rest of the timeline, from where the source stands in the process that
    starts it. With ``num_workers=0`` that is the source itself. Processes have copies: either
    iterate once, over a source that does not end after a sweep, or set
    ``source.current_position`` to ``nominal_time + global_num_samples`` of the last minibatch
    seen. A `StatefulDataLoader` keeps the place by itself.

    Parameters
    ----------
    source : MinibatchSource
        It travels to processes that are spawned as what it was made of, if that pickles.
    size : int
        Samples in a minibatch, over all ranks.
    num_data_partitions, partition_index : int, optional
        How many ranks share every minibatch, and which this is; by default those of
        ``torch.distributed`` where it is initialised, else one.
    to_item : callable
        What is delivered of a `Minibatch`; it must pickle if there are worker processes.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> from torch.utils.data import DataLoader
    >>> corpus = sh.ArrayDeserializer({"x": np.arange(6.0)})
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> for item in DataLoader(sh.torch.IterableDataset(source, 4), batch_size=None):
    ...     print(item["x"])
    tensor([0., 1., 2., 3.], dtype=torch.float64)
    tensor([4., 5.], dtype=torch.float64)
    """

    def __init__(
        self,
        source: MinibatchSource,
        size: int,
        *,
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
        to_item: Callable[[Minibatch], Any] = tensors_of,
    ) -> None:
        if (num_data_partitions is None) != (partition_index is None):
            raise ValueError("give num_data_partitions and partition_index, or neither")
        if num_data_partitions is None or partition_index is None:
            num_data_partitions, partition_index = _rank()
        self.source = source
        self._size = size
        self._workers = num_data_partitions
        self._rank = partition_index
        self._to_item = to_item
        self._at_own = False  # this process stands at a minibatch of its own

    def __iter__(self) -> Iterator[Any]:
        process = torch.utils.data.get_worker_info()
        num_skipped = 0
        if process is not None:
            num_skipped = process.num_workers - 1
            if not self._at_own:
                self._pass_over(process.id)
        self._at_own = True
        while True:
            minibatch = self.source._next_of(self._size, self._workers, self._rank, num_skipped)
            if not minibatch:
                return
            yield self._to_item(minibatch)

    def _pass_over(self, count: int) -> None:
        """Go on by `count` minibatches, which other processes deliver."""
        plans = self.source.plan(self._size)
        for _, planned in zip(range(count), plans, strict=False):
            self.source._go_behind(planned)

    def state_dict(self) -> dict[str, Any]:
        """Return where this process stands: what its next minibatch begins with."""
        return {"source": self.source.state_dict(), "at_own": self._at_own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to where a state was taken, by the same one of as many processes."""
        self.source.load_state_dict(state["source"])
        self._at_own = state["at_own"]


def _rank() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size(), torch.distributed.get_rank()
    return 1, 0
