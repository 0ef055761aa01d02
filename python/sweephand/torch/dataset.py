"""A source inside torch's own loaders."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Literal, NamedTuple

import torch
import torch.utils.data
from torch.utils.data._utils.fetch import _IterableDatasetFetcher

from sweephand.base.checks import check_int
from sweephand.base.other_names import answers_other_names
from sweephand.errors import shown
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.share import Position
from sweephand.source.limits import FULL_DATA_SWEEP
from sweephand.source.loops import check_not_ended
from sweephand.source.source import MinibatchSource
from sweephand.torch.distributed.coordinate import coordinate, has_group, num_processes
from sweephand.torch.tensors import tensors_of


class DataLoader(torch.utils.data.DataLoader[Any]):
    """Torch's loader over a source's minibatches, which counts delivered items.

    The next iteration, and states of loader and source, continue after the last delivered item,
    also after a ``break`` and with worker processes. RuntimeError is raised if the source is
    moved, iterated over elsewhere, or given events meanwhile. Accelerate and Lightning do not
    wrap it, and save and restore its state.

    Parameters
    ----------
    dataset : IterableDataset
        With the source and the form of items.
    read_ahead : int
        Number of items that the loop has taken but not yet trained when it asks for a state.
        States do not include them, and they come again after a ``break``.
    **options
        Of torch's `DataLoader`, except those that make minibatches, and
        ``persistent_workers``.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> corpus = sh.ArrayDeserializer({"x": np.arange(6)})
    >>> source = sh.MinibatchSource(corpus, randomize=False)
    >>> loader = sh.torch.DataLoader(sh.torch.IterableDataset(source, 2))
    >>> next(iter(loader))["x"].tolist()
    [0, 1]
    >>> [item["x"].tolist() for item in loader], source.current_position
    ([[2, 3], [4, 5]], 6)
    """

    # Read by accelerate: do not wrap, deal or slice; save and restore the state.
    _is_accelerate_prepared = True
    use_stateful_dataloader = True

    dataset: IterableDataset

    def __init__(
        self, dataset: IterableDataset, *, read_ahead: int = 0, **options: Any
    ) -> None:
        if not isinstance(dataset, IterableDataset):
            raise TypeError(
                f"dataset must be a sh.torch.IterableDataset, got {shown(dataset)}; write "
                "sh.torch.DataLoader(sh.torch.IterableDataset(source, size))"
            )
        check_int("read_ahead", read_ahead, 0, 2**16)
        if not options.get("in_order", True) or options.get("persistent_workers"):
            raise ValueError(
                "leave out in_order=False, whose order no state can tell, and "
                "persistent_workers=True: processes begin at the position of training"
            )
        super().__init__(dataset, batch_size=None, collate_fn=_as_it_is, **options)
        # Where the items begin that were read ahead, and where the next one does.
        self._places: deque[Position] = deque(maxlen=1 + read_ahead)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        source = self.dataset.source
        position = self._trained()
        if not _same(position, source.position):
            source.position = position
        self.dataset._check_not_ended()
        self._places.clear()
        self._places.append(position)
        events = source.events.digest
        for item in self._items():
            if isinstance(item, Delivered):
                if not _same(source.position, position) or source.events.digest != events:
                    raise RuntimeError(
                        "the source was moved, iterated over otherwise, or given events, "
                        "while processes of this loader deliver its minibatches; begin a new "
                        "iteration"
                    )
                item, place = item.item, Position(*item.position)
                source.position = place
            position = source.position
            self._places.append(position)
            yield item
        self._places.clear()  # a loop that saw the end has trained everything

    def state_dict(self) -> dict[str, Any]:
        """Return the position of training: after all items but those read ahead."""
        return self.dataset.source.timeline.state_at(self._trained())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to where a state was taken, of a loader or of a source."""
        self.dataset.source.load_state_dict(state)
        self._places.clear()

    def _items(self) -> Iterator[Any]:
        """Return an iterator of torch's, whose processes send places beside items."""
        self.dataset._counted = self.num_workers > 0
        try:
            return super().__iter__()
        finally:
            self.dataset._counted = False

    def _trained(self) -> Position:
        position = self.dataset.source.position
        if self._places and _same(self._places[-1], position):
            return self._places[0]
        return position  # the source was moved meanwhile


def _as_it_is(item: Any) -> Any:
    return item


def _same(one: Position, other: Position) -> bool:
    return (one.time, one.progress) == (other.time, other.progress)


_NEVER = 2**63
_FRAMES = 8  # between a dataset and the loader, at most


class Delivered(NamedTuple):
    """Message of a process of `sh.torch.DataLoader`: an item, and the place after it."""

    item: Any
    position: tuple[int, list[int]]


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """Deliver a source's minibatches through a loader, one sweep per iteration.

    The loader is `sh.torch.DataLoader`, or, without worker processes, another of torch's with
    ``batch_size=None``. An iteration goes from the position of the source to the end of the
    sweep, which no minibatch crosses. With ``num_workers`` processes the first delivers, by the
    source's own threads, and the rest end at once.

    RuntimeError is raised when an iteration begins where the source has ended, ``WORLD_SIZE``
    is above 1 without a process group, or a process of another loader has it.

    Parameters
    ----------
    source : MinibatchSource
        Spawned processes get the arguments that it was made of, if these pickle.
    size : int
        Samples in a minibatch, over all ranks.
    samples_per_iteration : "sweep", int or None
        The end of an iteration: that of the sweep; the minibatch that reaches the next multiple
        of this number of samples in nominal time; or the end of data.
    num_data_partitions, partition_index : int, optional
        Number of ranks that share every minibatch, and the index of this one; by default those
        of ``torch.distributed`` when an iteration begins, else a single one.
    to_item : callable
        Turns a `Minibatch` into an item; it must pickle if there are worker processes.

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

    @answers_other_names
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
        if not isinstance(source, MinibatchSource):
            raise TypeError(
                f"source must be a sh.MinibatchSource, got {shown(source)}; write "
                "sh.torch.IterableDataset(sh.MinibatchSource(deserializer), size)"
            )
        source.timeline.request(size, 1, 0)
        self._given_share = None
        if num_data_partitions is not None and partition_index is not None:
            self._given_share = num_data_partitions, partition_index
        elif num_data_partitions is not None or partition_index is not None:
            raise ValueError("give num_data_partitions and partition_index, or neither")
        self._is_sweep = samples_per_iteration == "sweep"
        self._samples: int | None = None  # of an iteration; None: all that there are
        if samples_per_iteration == "sweep":
            source.timeline.check_has_sweeps(
                "an iteration with samples_per_iteration='sweep'",
                "sh.torch.IterableDataset(source, size, samples_per_iteration=n), n samples of "
                "nominal time, or None for all",
            )
            self._samples = source.num_samples_per_sweep
        elif samples_per_iteration is not None:
            self._samples = check_int("samples_per_iteration", samples_per_iteration, 1, 2**63)
        self.source = source
        self.size = size
        self._to_item = to_item
        self._restored: dict[str, Any] | None = None  # of the next iteration
        self._end: int | None = None  # of the iteration under way
        self._counted = False  # by the loader that starts processes now
        self._share_of_rank: tuple[int, int] | None = None
        source.cursor.check_serves()

    def __iter__(self) -> Iterator[Any]:
        _refuse_stacking()
        self._refuse_uncounted()
        process = torch.utils.data.get_worker_info()
        if process is not None and process.id:
            return  # the first one delivers
        num_partitions, index = self._share()
        restored, self._restored = self._restored, None
        if restored is None:
            self._check_not_ended()
        end = restored["end"] if restored else None
        if end is None:
            samples = self._samples
            end = _NEVER
            if samples is not None:
                end = (self.source.current_position // samples + 1) * samples
        self._end = end
        request = self.source.timeline.request(
            self.size, num_partitions, index, crosses_sweeps=not self._is_sweep
        )
        while self.source.current_position < end:
            minibatch = self.source.cursor.next(request)
            if not minibatch:
                break
            item = self._to_item(minibatch)
            if self._counted:
                position = minibatch.next_position
                yield Delivered(item, (position.time, list(position.progress)))
            else:
                yield item
        self._end = None

    def _refuse_uncounted(self) -> None:
        """Refuse the processes of a loader that does not say what it has handed out."""
        if torch.utils.data.get_worker_info() is not None and not self._counted:
            raise RuntimeError(
                "this loader does not count what its worker processes deliver, so that nobody "
                "would know where training is: take sh.torch.DataLoader, or num_workers=0"
            )

    def __len__(self) -> int:
        """Return the minibatches of a whole iteration, those included that it has delivered."""
        source, samples, size = self.source, self._samples, self.size
        if size == FULL_DATA_SWEEP:
            size = source.num_samples_per_sweep
        of_one = source.timeline.corpus.core.common_size == 1
        is_known = of_one and source.layout.fits_in_order
        if is_known and samples is None and not source.is_infinite:
            return -(-source.timeline.limit // size)
        if is_known and samples and (self._is_sweep or samples % size == 0):
            begin = source.current_position // samples * samples
            return -(-max(0, min(begin + samples, source.timeline.limit) - begin) // size)
        raise TypeError(
            "how many minibatches an iteration has is known where every sequence has one "
            "sample, in layouts without rows or buckets, and the data end or the size divides "
            "the samples of an iteration"
        )

    def _check_not_ended(self) -> None:
        """Raise if an iteration could only be empty, unless it takes the rest of the data."""
        if self._samples is not None:
            check_not_ended(self.source.cursor)

    def state_dict(self) -> dict[str, Any]:
        """Return the beginning of the next minibatch, and the end of the iteration.

        A `StatefulDataLoader` asks for it. Training asks the source, or our loader.
        """
        self._refuse_uncounted()
        end = self._restored["end"] if self._restored else self._end
        return {"source": self.source.state_dict(), "end": end}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to the position of a state; the iteration ends where it would have."""
        self._refuse_uncounted()
        self.source.load_state_dict(state["source"])
        self._restored = dict(state)

    def set_epoch(self, epoch: int) -> None:
        """Refuse loaders that deal items among processes, as accelerate's do.

        The ranks share every minibatch already. There is nothing to set: a place on the
        timeline decides which sweep comes next.
        """
        if num_processes() > 1:
            raise RuntimeError(
                "this loader would split minibatches that the ranks share already, so that "
                "rows are lost or come twice; use sh.torch.DataLoader, which accelerate leaves "
                "as it is, in place of torch's (docs/frameworks)"
            )

    def __getstate__(self) -> dict[str, Any]:
        # A process that is spawned has no process group; one that is forked has it still.
        return self.__dict__ | {"_share_of_rank": coordinate() if has_group() else None}

    def _share(self) -> tuple[int, int]:
        if self._given_share is not None:
            return self._given_share
        carried = None if has_group() else self._share_of_rank
        return carried or coordinate()


def _refuse_stacking() -> None:
    """Raise if the loader that asks would stack minibatches, as its batch_size says.

    A loader tells a dataset nothing of it, so it is looked for in the frames that call.
    """
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return
        fetcher = frame.f_locals.get("self")
        if isinstance(fetcher, _IterableDatasetFetcher) and fetcher.auto_collation:
            raise TypeError(
                "the loader would stack minibatches, by its batch_size: give batch_size=None, "
                "or use sh.torch.DataLoader(dataset), which Hugging Face's trainers return "
                "from get_train_dataloader; how many samples a minibatch has is the size of "
                "sh.torch.IterableDataset(source, size)"
            )
        frame = frame.f_back
