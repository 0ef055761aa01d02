"""Global minibatches whose sequences a Megatron scheduler gives to ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from sweephand import MinibatchSource
from sweephand.ext.integrations.megatron.batch import BATCH_KEYS, CELLS, Batch
from sweephand.ext.integrations.megatron.documents import Documents
from sweephand.ext.integrations.megatron.place import Place
from sweephand.ext.integrations.packed_rows import PackedRows, row_length_of
from sweephand.extend import check_int

__all__ = ["ScheduledIterator"]

Groups: TypeAlias = Sequence[Sequence[Sequence[int]]]
Schedule: TypeAlias = Callable[[list[tuple[int, int]]], Groups]


class ScheduledIterator(Iterator[tuple[dict[int, Batch], Groups]]):
    """Deliver sequences to groups of ranks whose sizes change within a step.

    It replaces ``HybridCPDataLoaderWrapper``, and the wrapper of the packing
    schedulers that come after it: which sequences make up a minibatch, and how long they are,
    every rank finds in the plan. So no lengths are gathered, and no tokens are sent: every rank
    reads the minibatch, of a few bytes a token, and keeps what is its own.

    Parameters
    ----------
    source : MinibatchSource
        In layout `Packed`, whose rows are taken apart. It is the iterator's own from now on.
    minibatch_size_in_samples : int
        Of the global minibatch: over all ranks, and all micro-batches of a step.
    schedule : callable
        Takes a list of (number, length) of the sequences, and returns the numbers of each rank
        in each group: ``groups[group][rank]``. Ranks with the same number share the sequence.
        In Megatron it is ``get_groups_and_subsamples`` of a scheduler.
    place : Place, optional
        The place of this rank, which is number ``dp_cp_rank`` of the schedule.
    stream : str
        Where the tokens are.

    Examples
    --------
    Two ranks share the long sequence, and then have a short one each.

    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> from sweephand.ext.integrations.megatron import Place, ScheduledIterator, get_batch
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(8), np.arange(3), np.arange(4)]})
    >>> source = sh.MinibatchSource(corpus, layout=sh.Packed(8), randomize=False)
    >>> def schedule(lengths):
    ...     (longest, _), *others = sorted(lengths, key=lambda one: -one[1])
    ...     return [[[longest], [longest]], [[number] for number, _ in others]]
    >>> place = Place(dp_world_size=2, dp_rank=1)
    >>> micro_batches = ScheduledIterator(source, 16, schedule, place).micro_batches()
    >>> for _ in range(2):
    ...     get_batch(micro_batches, place=place)[-1]
    tensor([[2, 3, 4, 5]])
    tensor([[0, 1, 2, 0]])
    """

    def __init__(
        self,
        source: MinibatchSource,
        minibatch_size_in_samples: int,
        schedule: Schedule,
        place: Place | None = None,
        *,
        stream: str = "tokens",
    ) -> None:
        self._length = row_length_of(source, "Megatron")
        self._size = check_int("size", minibatch_size_in_samples, self._length, 2**63)
        source.stream_info(stream)  # is it there?
        source.timeline.request(self._size)
        self._source, self._schedule, self._stream = source, schedule, stream
        self._place = place or Place()

    def __next__(self) -> tuple[dict[int, Batch], Groups]:
        """Return the sequences of a step in Megatron's hybrid schedule.

        Returns
        -------
        samples : dict
            By number the sequences of this rank: ``tokens``, ``labels``, ``loss_mask`` and
            ``position_ids``, each of one dimension, padded to a multiple of twice the ranks
            that share it; and their number, ``local_cp_size``.
        groups : list
            As the schedule gave them, the same on all ranks.
        """
        step = self._read()
        samples = {}
        for numbers in step.own(self._place.dp_cp_rank):
            for number in numbers:
                batch, _ = step.laid([number])
                samples[number] = {key: batch[key][0] for key in CELLS} | {
                    "local_cp_size": batch["local_cp_size"]
                }
        return samples, step.groups

    def micro_batches(self) -> Iterator[Batch]:
        """Return the micro-batches of the next step, one for each group of the schedule.

        Each has the sequences of this rank in the group one after the other, of `BATCH_KEYS`,
        as a `DataIterator` with ``documents="cu_seqlens_padded"`` delivers them, and their
        ``local_cp_size``. All ranks have equally many.

        Raises
        ------
        StopIteration
            At the end of data.
        ValueError
            If the sequences of a rank in a group are not all shared with the same ranks.
        """
        step = self._read()
        return iter([step.packed(numbers) for numbers in step.own(self._place.dp_cp_rank)])

    def _read(self) -> _Step:
        minibatch = self._source.next_minibatch(self._size)
        if not minibatch:
            raise StopIteration
        rows = PackedRows(minibatch, minibatch.num_rows, self._length)
        positions = rows.positions()
        documents = Documents.of(minibatch, positions, 1)
        values = {
            "tokens": rows.tokens(self._stream),
            "labels": rows.labels(self._stream, 0),
            "loss_mask": rows.loss_mask(self._stream),
            "position_ids": positions,
        }
        lengths = np.diff(documents.ends, prepend=0)
        groups = self._schedule(list(enumerate(lengths.tolist())))
        sharing = _sharing(groups, len(lengths), self._place.dp_cp_world_size)
        return _Step(values, documents.cells, documents.ends, groups, sharing)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the source, the same on all ranks: between two steps."""
        return self._source.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to the position of a state, with any number of ranks."""
        self._source.load_state_dict(state)


@dataclass(frozen=True)
class _Step:
    """Sequences of a global minibatch, and who has them."""

    values: Mapping[str, torch.Tensor]
    # of all sequences, as `Documents` has them
    cells: NDArray[np.int64]
    ends: NDArray[np.int64]
    groups: Groups
    sharing: Sequence[range]  # the ranks that share each sequence

    def own(self, rank: int) -> list[Sequence[int]]:
        """Return the numbers of a rank in each group."""
        return [group[rank] for group in self.groups]

    def laid(self, numbers: Sequence[int]) -> tuple[Batch, Documents]:
        """Return concatenated sequences, padded for the ranks that share them."""
        count = len(self.sharing[numbers[0]]) if len(numbers) else 1
        each = [self.cells[self._begin(number) : self.ends[number]] for number in numbers]
        cells = np.concatenate(each) if each else self.cells[:0]
        lengths = np.array([len(one) for one in each] or [0])
        documents = Documents.padded(cells, lengths, 2 * count)
        batch: Batch = {key: documents.take(self.values[key]) for key in CELLS}
        batch["local_cp_size"] = torch.tensor(count, dtype=torch.int32)
        return batch, documents

    def packed(self, numbers: Sequence[int]) -> Batch:
        """Return sequences as a micro-batch, with their boundaries."""
        if len({self.sharing[number] for number in numbers}) > 1:
            raise ValueError(
                f"sequences {list(numbers)} are in one micro-batch, and shared by different "
                "ranks: take them one by one, by next(iterator)"
            )
        batch, documents = self.laid(numbers)
        return dict.fromkeys(BATCH_KEYS) | batch | documents.boundaries

    def _begin(self, number: int) -> int:
        return int(self.ends[number - 1]) if number else 0


def _sharing(groups: Groups, num_sequences: int, num_ranks: int) -> list[range]:
    """Return the ranks that share each sequence; ValueError for a schedule that cannot be."""
    sharing: dict[int, range] = {}
    for number, group in enumerate(groups):
        if len(group) != num_ranks:
            raise ValueError(
                f"group {number} of the schedule is for {len(group)} ranks, and data and "
                f"context parallelism have {num_ranks}"
            )
        ranks: dict[int, list[int]] = {}
        for rank, numbers in enumerate(group):
            for one in numbers:
                ranks.setdefault(one, []).append(rank)
        for one, members in ranks.items():
            count = len(members)
            both = range(members[0], members[0] + count)
            is_group = count == num_ranks or count.bit_count() == 1
            if one in sharing or members != list(both) or members[0] % count or not is_group:
                raise ValueError(
                    f"sequence {one} is given to the ranks {members} in group {number} of the "
                    "schedule: each comes once, to all ranks, or to 1, 2, 4, ... neighbours "
                    "that begin at a multiple of their number"
                )
            sharing[one] = both
    if sharing.keys() != set(range(num_sequences)):
        lost = sorted(set(range(num_sequences)) ^ sharing.keys())
        raise ValueError(
            f"the schedule has {len(sharing)} sequences of {num_sequences}; the first that is "
            f"lost or unknown is {lost[0]}"
        )
    return [sharing[number] for number in range(num_sequences)]
