"""A loader that counts consumed items, however far its processes are ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch.utils.data

from sweephand.base.checks import check_int
from sweephand.errors import shown
from sweephand.minibatch.share import Position
from sweephand.torch.loaders.dataset import Delivered, IterableDataset

_MADE_BY_THE_SOURCE = (
    "batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "collate_fn",
)  # fmt: skip


class DataLoader(torch.utils.data.DataLoader[Any]):
    """Torch's loader over a source's minibatches, which counts delivered items.

    The next iteration continues after the last delivered item, also after a ``break`` and with
    worker processes, persistent ones, forked or spawned. So do states, of the loader and of the
    source. Items are those of `IterableDataset`.

    Accelerate and Lightning do not wrap it, and save and restore its state: see
    ``docs/frameworks``.

    Parameters
    ----------
    dataset : IterableDataset
        With the source. Its ``to_item`` decides the form of items.
    read_ahead : int
        Number of items that the loop has taken but not yet trained when it asks for a state.
        States do not include them, and they come again after a ``break``.
    **options
        Of torch's `DataLoader`: ``num_workers``, ``pin_memory``, ``persistent_workers``,
        ``prefetch_factor``, ``multiprocessing_context``, ... except those that make
        minibatches.

    Raises
    ------
    RuntimeError
        While iterating: if the source is moved or iterated over elsewhere.

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
        for name in _MADE_BY_THE_SOURCE:
            if name in options:
                raise TypeError(
                    f"sh.torch.DataLoader() takes no {name}: the source makes the minibatches, "
                    "sh.torch.IterableDataset(source, size) has their size, in samples"
                )
        if not options.get("in_order", True):
            raise ValueError(
                "in_order=False hands out minibatches in an order that no state can tell; "
                "leave it out"
            )
        super().__init__(dataset, batch_size=None, collate_fn=_as_it_is, **options)
        # Where the items begin that were read ahead, and where the next one does.
        self._places: deque[Position] = deque(maxlen=1 + read_ahead)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        source, place = self.dataset.source, self.dataset._place
        position = self._trained()
        if not _same(position, source.position):
            source.position = position
        self.dataset._check_not_ended()
        self._places.clear()
        self._places.append(position)
        if self.num_workers:
            place.move(position)  # persistent processes are at other positions
            place.note_consumed(position)
        for item in self._items():
            if isinstance(item, Delivered):
                if not place.is_consumed_to(position):
                    raise RuntimeError(
                        "the source was moved, or iterated over otherwise, while processes of "
                        "this loader deliver its minibatches; begin a new iteration"
                    )
                item, position = item.item, Position(*item.position)
                place.note_consumed(position)
            else:
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
