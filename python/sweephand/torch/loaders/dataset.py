"""A source inside torch's own loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple

import torch
import torch.utils.data

from sweephand.checks import check_int
from sweephand.corpus.streams import name_of
from sweephand.layouts import Frames, Padded, Ragged
from sweephand.minibatch.minibatch import Minibatch
from sweephand.source.limits import FULL_DATA_SWEEP
from sweephand.source.source import MinibatchSource
from sweephand.torch.loaders.place import Place
from sweephand.torch.minibatch.tensors import to_tensor
from sweephand.torch.train.workers import find_share, has_group, num_processes

_WITHOUT_ROWS = (Ragged, Padded, Frames)
_NEVER = 2**63


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


class Delivered(NamedTuple):
    """What a process of `sh.torch.DataLoader` sends: an item, and the place behind it."""

    item: Any
    position: tuple[int, list[int]]


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """Deliver a source's minibatches through a loader, one sweep per iteration.

    The minibatches are whole, so the loader is `sh.torch.DataLoader`, or one that is made with
    ``batch_size=None``. An iteration goes from where the source stands to the end of the sweep;
    no minibatch reaches over it. The next iteration is the next sweep. After a ``break`` the
    next one goes on behind the last item that was delivered.

    With ``num_workers`` processes, minibatch n comes from process n mod num_workers; each plans
    all steps and assembles only its own, so that they arrive in order, each once. Only
    `sh.torch.DataLoader` counts what such processes have delivered. Torch's own loaders cannot:
    with processes they iterate once, and then refuse until the source is placed anew.

    Parameters
    ----------
    source : MinibatchSource
        It travels to processes that are spawned as what it was made of, if that pickles.
    size : int
        Samples in a minibatch, over all ranks.
    samples_per_iteration : "sweep", int or None
        Where an iteration ends: with the sweep; with the minibatch that reaches the next
        multiple of so many samples of nominal time; or with the data.
    num_data_partitions, partition_index : int, optional
        How many ranks share every minibatch, and which this is; by default those that
        ``torch.distributed`` has when an iteration begins, else one.
    to_item : callable
        What is delivered of a `Minibatch`; it must pickle if there are worker processes.

    Raises
    ------
    RuntimeError
        When an iteration begins: if the source has ended; if ``WORLD_SIZE`` says that there are
        several processes and no process group tells them apart; if it is not known where to go
        on; if a loader wants to split the minibatches among processes once more.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> corpus = sh.ArrayDeserializer({"x": np.arange(6.0)})
    >>> source = sh.MinibatchSource(corpus, randomize=False)
    >>> loader = sh.torch.DataLoader(sh.torch.IterableDataset(source, 4))
    >>> for epoch in range(2):
    ...     for item in loader:
    ...         print(epoch, item["x"].tolist())
    0 [0.0, 1.0, 2.0, 3.0]
    0 [4.0, 5.0]
    1 [0.0, 1.0, 2.0, 3.0]
    1 [4.0, 5.0]
    """

    def __init__(
        self,
        source: MinibatchSource,
        size: int,
        *,
        samples_per_iteration: int | Literal["sweep"] | None = "sweep",
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
        to_item: Callable[[Minibatch], Any] = tensors_of,
    ) -> None:
        self._given_share = None
        if num_data_partitions is not None and partition_index is not None:
            self._given_share = num_data_partitions, partition_index
        elif num_data_partitions is not None or partition_index is not None:
            raise ValueError("give num_data_partitions and partition_index, or neither")
        if samples_per_iteration not in ("sweep", None):
            check_int("samples_per_iteration", samples_per_iteration, 1, 2**63)
        self.source = source
        self.size = size
        self._samples = samples_per_iteration
        self._to_item = to_item
        self._restored: dict[str, Any] | None = None  # of the next iteration
        self._end: int | None = None  # of the iteration under way
        self._at_own = False  # this process stands at a minibatch of its own
        self._counted = False  # by the loader that started this process
        self._share_of_rank: tuple[int, int] | None = None
        self._place = (
            source._delivery.elsewhere
            if isinstance(source._delivery.elsewhere, Place)
            else Place()
        )
        source._delivery.elsewhere = self._place

    def __iter__(self) -> Iterator[Any]:
        process = torch.utils.data.get_worker_info()
        stride = 1 if process is None else process.num_workers
        number = 0 if process is None else process.id
        workers, rank = self._share()
        if process is not None:
            self._begin_in(process.id)
        restored, self._restored = self._restored, None
        if restored is None:
            self._check_not_ended()
        end = restored["end"] if restored else None
        end = self._end_of(self.source.current_position) if end is None else end
        self._end = end
        request = self.source._requests.check(
            self.size, workers, rank, stride - 1, self._samples != "sweep"
        )
        self._at_own = number == 0 or (restored is not None and restored["at_own"])
        if not self._at_own:
            self._at_own = self._pass_over(number, end)
        while self._at_own and self.source.current_position < end:
            minibatch, position = self.source._next_of(request)
            if not minibatch:
                break
            item = self._to_item(minibatch)
            yield Delivered(item, (position.time, position.progress)) if self._counted else item
        if process is None:
            self._end = None  # a process that has ended stays so, when its state is restored

    def __len__(self) -> int:
        """Return the minibatches of a whole iteration, those included that it has delivered.

        Raises
        ------
        TypeError
            If that is not known without planning: where sequences have different lengths.
        """
        count = self._count()
        if count is None:
            raise TypeError(
                "how many minibatches an iteration has is known where every sequence has one "
                "sample, in layouts without rows or buckets, and the data end or the size "
                "divides the samples of an iteration"
            )
        return count

    def _check_not_ended(self) -> None:
        """Complain if an iteration could only be empty, unless it was to take what is left."""
        time = self.source.current_position
        if self._samples is not None and time >= self.source._timeline.limit:
            raise RuntimeError(
                f"the source has ended, at nominal time {time}, so there is nothing to iterate "
                "over. An iteration is one sweep however many there are: make the source "
                "without max_sweeps, or set source.current_position to go back"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return where this process stands: what its next minibatch begins with.

        A `StatefulDataLoader` asks for it in each of its processes. Who trains asks the source,
        or `sh.torch.DataLoader`.
        """
        restored = self._restored or {"end": self._end, "at_own": self._at_own}
        return {"source": self.source.state_dict()} | {
            name: restored[name] for name in ("end", "at_own")
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to where a state was taken, by the same one of as many processes."""
        process = torch.utils.data.get_worker_info()
        if process is not None:
            self._place.begin(process.id, counted=False, restored=True)
            self.source._delivery.elsewhere = None
        self.source.load_state_dict(state["source"])
        self._restored = dict(state)

    def set_epoch(self, epoch: int) -> None:
        """Refuse loaders that deal what comes out among processes, as accelerate's do.

        The ranks share every minibatch already. There is nothing to set: a place on the
        timeline says which sweep comes next.
        """
        if num_processes() > 1:
            raise RuntimeError(
                "this loader would split minibatches that the ranks share already, so that "
                "rows are lost or come twice; use sh.torch.DataLoader, which accelerate leaves "
                "as it is, in place of torch's (docs/clients.md)"
            )

    def __getstate__(self) -> dict[str, Any]:
        # A process that is spawned has no process group; one that is forked has it still.
        share = find_share() if has_group() else None
        return self.__dict__ | {"_share_of_rank": share}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.source._delivery.elsewhere = self._place

    def _share(self) -> tuple[int, int]:
        if self._given_share is not None:
            return self._given_share
        carried = None if has_group() else self._share_of_rank
        return carried or find_share()

    def _begin_in(self, process: int) -> None:
        """Go to where the loader's processes begin, and be on one's own from there."""
        if self._restored is not None:
            return
        position = self._place.begin(process, counted=self._counted, restored=False)
        self.source._delivery.elsewhere = None
        if position is not None:
            self.source._delivery.go_to(position)

    def _pass_over(self, count: int, end: int) -> bool:
        """Go on by `count` minibatches, which other processes deliver, if there are so many."""
        plans = self.source._timeline.plan(
            self.source._delivery.position,
            self.size,
            self.source._requests,
            crosses_sweeps=self._samples != "sweep",
        )
        for planned in islice(plans, count):
            position = planned.next_position
            count -= 1
            if position.time >= end:
                break
        if count == 0:
            self.source._delivery.go_to(position)
        return count == 0

    def _end_of(self, time: int) -> int:
        """Return the nominal time at which an iteration ends that goes on from `time`."""
        samples = self._samples
        if samples is None:
            return _NEVER
        if samples == "sweep":
            samples = self.source.num_samples_per_sweep
        return (time // samples + 1) * samples

    def _count(self) -> int | None:
        """Return the minibatches of an iteration, or None if that is not known."""
        source = self.source
        if source._corpus.core.common_size != 1 or not isinstance(source.layout, _WITHOUT_ROWS):
            return None
        sweep = source.num_samples_per_sweep
        size = sweep if self.size == FULL_DATA_SWEEP else self.size
        if self._samples is None:
            return None if source.is_infinite else -(-source._timeline.limit // size)
        samples = sweep if self._samples == "sweep" else self._samples
        if self._samples != "sweep" and samples % size:
            return None
        begin = source.current_position // samples * samples
        return -(-max(0, min(begin + samples, source._timeline.limit) - begin) // size)
