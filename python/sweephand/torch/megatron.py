"""Inputs of Megatron-Core's training loop: a data iterator, and `get_batch`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol, Self, TypeAlias

import torch

from sweephand.checks import check_int
from sweephand.dataclass import dataclass
from sweephand.minibatch.planned_minibatch import PlannedMinibatch
from sweephand.source.source import MinibatchSource
from sweephand.torch.minibatch.packed_rows import PackedRows, positions_of, row_length_of

__all__ = ["BATCH_KEYS", "DataIterator", "Place", "get_batch"]

BATCH_KEYS = (
    "attention_mask", "cu_seqlens", "cu_seqlens_padded", "hybrid_cp_group", "labels",
    "local_cp_size", "loss_mask", "max_seqlen", "position_ids", "tokens",
)  # fmt: skip
_CELLS = ("labels", "loss_mask", "position_ids", "tokens")
Batch: TypeAlias = dict[str, torch.Tensor | None]


class ParallelState(Protocol):
    """The used part of ``megatron.core.parallel_state``."""

    def get_data_parallel_world_size(self) -> int:
        """Return how many ranks have data of their own."""

    def get_data_parallel_rank(self) -> int:
        """Return which of them this is."""

    def get_context_parallel_world_size(self) -> int:
        """Return over how many ranks a sequence is split."""

    def get_context_parallel_rank(self) -> int:
        """Return which of them this is."""

    def is_pipeline_first_stage(self, ignore_virtual: bool, vp_stage: int | None) -> bool:
        """Return True if this stage has the embedding."""

    def is_pipeline_last_stage(self, ignore_virtual: bool, vp_stage: int | None) -> bool:
        """Return True if this stage has the loss."""


@dataclass(frozen=True)
class Place:
    """Place of a rank in the data; its tensor-parallel peers are alike.

    Parameters
    ----------
    dp_world_size, dp_rank : int
        The ranks that have data of their own, without those of context parallelism.
    cp_world_size, cp_rank : int
        The ranks that share each sequence.
    is_first_stage, is_last_stage : bool
        Of the pipeline: the first needs tokens, the last labels. Where a stage predicts several
        tokens (MTP), both are True.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.torch.megatron.Place(dp_world_size=4, dp_rank=1, is_last_stage=False).is_middle_stage
    False
    """

    dp_world_size: int = 1
    dp_rank: int = 0
    cp_world_size: int = 1
    cp_rank: int = 0
    is_first_stage: bool = True
    is_last_stage: bool = True

    @classmethod
    def of(cls, mpu: ParallelState, vp_stage: int | None = None) -> Self:
        """Return the place in ``megatron.core.parallel_state``."""
        return cls(
            mpu.get_data_parallel_world_size(),
            mpu.get_data_parallel_rank(),
            mpu.get_context_parallel_world_size(),
            mpu.get_context_parallel_rank(),
            mpu.is_pipeline_first_stage(False, vp_stage),
            mpu.is_pipeline_last_stage(False, vp_stage),
        )

    @property
    def is_middle_stage(self) -> bool:
        """True if neither tokens nor labels are wanted here."""
        return not (self.is_first_stage or self.is_last_stage)


class DataIterator(Iterator[Batch]):
    """Deliver micro-batches of packed rows, as a data set and its loader would.

    It is Megatron's ``data_iterator``, with ``--dataloader-type external``: for its own
    ``get_batch``, which broadcasts and splits, or for `get_batch` of this module, for which
    every rank has an iterator and nothing is sent.

    Parameters
    ----------
    source : MinibatchSource
        In layout `Packed`; its row length is Megatron's ``seq_length``. It is the iterator's
        own from now on.
    micro_batch_size : int
        Rows of a micro-batch, for each data-parallel rank.
    place : Place
        Where this rank stands.
    stream : str
        Where the tokens are.
    documents : {"cu_seqlens", "attention_mask", None}
        How attention learns where the sequences of a row end: by their boundaries, by a mask
        (rows, 1, row length, row length) that is True where cells must not look, or not at all.
        Labels never cross the end of one, and positions begin anew, but with None.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(2), np.arange(3)]})
    >>> source = sh.MinibatchSource(corpus, layout=sh.Packed(6), randomize=False)
    >>> batch = next(sh.torch.megatron.DataIterator(source, 1))
    >>> batch["tokens"].tolist(), batch["loss_mask"].tolist()
    ([[0, 1, 0, 1, 2, 0]], [[1.0, 0.0, 1.0, 1.0, 0.0, 0.0]])
    >>> batch["cu_seqlens"].tolist(), batch["max_seqlen"].tolist()
    ([[0, 2, 5, 6]], [3])
    """

    def __init__(
        self,
        source: MinibatchSource,
        micro_batch_size: int,
        place: Place | None = None,
        *,
        stream: str = "tokens",
        documents: Literal["cu_seqlens", "attention_mask"] | None = "cu_seqlens",
    ) -> None:
        self._rows = check_int("micro_batch_size", micro_batch_size, 1, 2**31)
        self._length = row_length_of(source, "Megatron")
        self._place = place = place or Place()
        if self._length % (2 * place.cp_world_size) and place.cp_world_size > 1:
            raise ValueError(
                f"rows of {self._length} cells do not split over {place.cp_world_size} "
                "context-parallel ranks: the row length must be a multiple of "
                f"{2 * place.cp_world_size}"
            )
        if documents not in ("cu_seqlens", "attention_mask", None):
            raise ValueError(
                f"documents must be 'cu_seqlens', 'attention_mask' or None, got {documents!r}"
            )
        source.stream_info(stream)  # is it there?
        self._source, self._stream, self._documents = source, stream, documents
        self._size = place.dp_world_size * self._rows * self._length
        source.timeline.request(self._size, place.dp_world_size, place.dp_rank)
        # A middle stage reads nothing: it goes over plans, and its source stands still.
        self._plans: Iterator[PlannedMinibatch] | None = None
        self._passed = source.position

    def __next__(self) -> Batch:
        """Return the next micro-batch: of `BATCH_KEYS`, None where this stage has no use.

        Returns
        -------
        dict
            ``tokens``, ``labels`` (0 where there is none), ``position_ids``: int64 of shape
            (rows, row length); ``loss_mask``: float32; ``cu_seqlens``: int32, (rows, most
            sequences of a row + 1), padding is a sequence of its own and the last boundary
            repeats; ``max_seqlen``: int32, (rows,); ``attention_mask``: bool.
        """
        batch: Batch = dict.fromkeys(BATCH_KEYS)
        is_middle = self._place.is_middle_stage
        positions = self._pass_over() if is_middle else self._read(batch)
        if self._documents == "cu_seqlens":
            batch["cu_seqlens"], batch["max_seqlen"] = _boundaries(positions)
        elif self._documents == "attention_mask" and not is_middle:
            batch["attention_mask"] = _mask(positions)
        return batch

    def _read(self, batch: Batch) -> torch.Tensor:
        """Fill in the next minibatch's tensors for this stage, and return its positions."""
        place = self._place
        share = self._source.next_minibatch(
            self._size, None, None, place.dp_world_size, place.dp_rank
        )
        if not share:
            raise StopIteration
        rows = PackedRows(share, self._rows, self._length)
        positions = rows.positions()
        if place.is_first_stage:
            batch["tokens"] = rows.tokens(self._stream)
            batch["position_ids"] = positions
            if self._documents is None:
                batch["position_ids"] = torch.arange(self._length).repeat(self._rows, 1)
        if place.is_last_stage:
            batch["labels"] = rows.labels(self._stream, 0)
            batch["loss_mask"] = rows.loss_mask(self._stream)
        return positions

    def _pass_over(self) -> torch.Tensor:
        """Pass over the next minibatch by its plan, and return its positions."""
        if self._plans is None:
            self._plans = self._source.plan(
                self._size,
                num_data_partitions=self._place.dp_world_size,
                partition_index=self._place.dp_rank,
            )
        share = next(self._plans)
        self._passed = share.next_position
        return positions_of(share, self._rows, self._length)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the source at the training's position, the same on all ranks."""
        if self._plans is None:
            return self._source.state_dict()
        return self._source.timeline.state_at(self._passed)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to the position of a state, with any number of ranks."""
        self._source.load_state_dict(state)
        self._plans = None


def get_batch(
    data_iterator: Iterator[Batch], vp_stage: int | None = None, *, place: Place | None = None
) -> list[torch.Tensor | None]:
    """Return the inputs of a forward step of Megatron, without sending anything.

    It stands in the place of ``get_batch`` of ``pretrain_gpt.py``. Rows with boundaries become
    one, as kernels for packed sequences want them. Then each context-parallel rank r of c keeps
    the parts r and 2c - 1 - r of 2c, so that causal attention costs all the same.

    Parameters
    ----------
    data_iterator : iterator
        A `DataIterator`, or what Megatron has put around it.
    vp_stage : int, optional
        Says nothing: each model chunk has an iterator, whose place knows its stage.
    place : Place, optional
        That of the iterator.

    Returns
    -------
    list
        In the order of `BATCH_KEYS`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> from sweephand.torch.megatron import DataIterator, Place, get_batch
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(8)]})
    >>> source = sh.MinibatchSource(corpus, layout=sh.Packed(8))
    >>> place = Place(cp_world_size=2, cp_rank=1)
    >>> get_batch(DataIterator(source, 1, place), place=place)[-1]
    tensor([[2, 3, 4, 5]])
    """
    batch = dict(next(data_iterator))
    if batch["cu_seqlens"] is not None:
        _join_rows(batch)
    place = place or Place()
    for key in (*_CELLS, "attention_mask"):
        values = batch[key]
        if values is not None and place.cp_world_size > 1:
            dim = 2 if key == "attention_mask" else 1
            batch[key] = _head_and_tail(values, dim, place.cp_world_size, place.cp_rank)
    return [batch[key] for key in BATCH_KEYS]


def _boundaries(positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the starts of sequences in each row, padded by its length, and the longest."""
    rows, length = positions.shape
    is_begin = positions == 0
    counts = is_begin.sum(1)
    boundaries = torch.full((rows, int(counts.max()) + 1), length, dtype=torch.int32)
    of_row = torch.arange(boundaries.shape[1]) < counts[:, None]
    boundaries[of_row] = is_begin.nonzero()[:, 1].int()
    return boundaries, positions.amax(1).int() + 1


def _mask(positions: torch.Tensor) -> torch.Tensor:
    """Return the cells that attention masks: other sequences, and later cells."""
    numbers = (positions == 0).cumsum(1)
    same = numbers[:, :, None] == numbers[:, None, :]
    return ~same.tril()[:, None]


def _join_rows(batch: Batch) -> None:
    """Make one row of all, with one list of boundaries."""
    boundaries, longest = batch["cu_seqlens"], batch["max_seqlen"]
    assert boundaries is not None
    assert longest is not None
    begins = torch.arange(len(boundaries), dtype=torch.int32) * boundaries[0, -1]
    batch["cu_seqlens"] = torch.unique(boundaries + begins[:, None])[None]
    batch["max_seqlen"] = longest.amax()[None]
    for key in _CELLS:
        values = batch[key]
        if values is not None:
            batch[key] = values.reshape(1, -1)


def _head_and_tail(values: torch.Tensor, dim: int, count: int, index: int) -> torch.Tensor:
    """Return part `index` and the same one from the end, of twice `count` parts."""
    parts = values.chunk(2 * count, dim)
    return torch.cat([parts[index], parts[-1 - index]], dim)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
