"""A micro-batch of Megatron-Core, and its part for a rank of context parallelism."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch

from sweephand.ext.integrations.megatron.documents import head_and_tail_of_each
from sweephand.ext.integrations.megatron.place import Place

__all__ = ["BATCH_KEYS", "get_batch"]

BATCH_KEYS = (
    "attention_mask", "cu_seqlens", "cu_seqlens_padded", "hybrid_cp_group", "labels",
    "local_cp_size", "loss_mask", "max_seqlen", "position_ids", "tokens",
)  # fmt: skip
CELLS = ("labels", "loss_mask", "position_ids", "tokens")
Batch: TypeAlias = dict[str, Any]


def get_batch(
    data_iterator: Iterator[Batch],
    vp_stage: int | None = None,
    *,
    place: Place | None = None,
    group_of: Callable[[int], object] | None = None,
) -> list[Any]:
    """Return the inputs of a forward step of Megatron, without sending anything.

    It replaces ``get_batch`` of ``pretrain_gpt.py``. Rows with boundaries become
    one, as kernels for packed sequences want them. Then each context-parallel rank r of c keeps
    the parts r and 2c - 1 - r of 2c, so that causal attention costs all the same: of the whole
    row, or of each sequence where these are padded. A micro-batch of a `ScheduledIterator` has
    a c of its own, ``local_cp_size``.

    Parameters
    ----------
    data_iterator : iterator
        A `DataIterator`, or what Megatron has put around it.
    vp_stage : int, optional
        Says nothing: each model chunk has an iterator, whose place knows its stage.
    place : Place, optional
        That of the iterator.
    group_of : callable, optional
        Gives the process group of a ``local_cp_size`` above 1, for ``hybrid_cp_group``:
        ``lambda size: mpu.get_hybrid_data_context_parallel_groups(group_size=size)``.

    Returns
    -------
    list
        In the order of `BATCH_KEYS`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> from sweephand.ext.integrations.megatron import DataIterator, Place, get_batch
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(8)]})
    >>> source = sh.MinibatchSource(corpus, layout=sh.Packed(8))
    >>> place = Place(cp_world_size=2, cp_rank=1)
    >>> get_batch(DataIterator(source, 1, place), place=place)[-1]
    tensor([[2, 3, 4, 5]])
    """
    batch: Batch = dict.fromkeys(BATCH_KEYS) | dict(next(data_iterator))
    place = place or Place()
    count, index = place.cp_world_size, place.cp_rank
    if batch["local_cp_size"] is not None:
        count = int(batch["local_cp_size"])
        index = place.dp_cp_rank % count
        if group_of is not None and count > 1:
            batch["hybrid_cp_group"] = group_of(count)
    for key in CELLS:
        if batch[key] is not None and batch[key].dim() == 1:  # a sequence that was scheduled
            batch[key] = batch[key][None]
    is_padded = batch["cu_seqlens_padded"] is not None
    if batch["cu_seqlens"] is not None and not is_padded:
        _join_rows(batch)
    if count > 1 and is_padded:
        _split_each(batch, count, index)
    elif count > 1:
        _split_whole(batch, count, index)
    return [batch[key] for key in BATCH_KEYS]


def _split_each(batch: Batch, count: int, index: int) -> None:
    """Leave of each padded sequence the parts of a rank."""
    cells = head_and_tail_of_each(batch["cu_seqlens_padded"][0], count, index)
    for key in CELLS:
        if batch[key] is not None:
            batch[key] = batch[key][:, cells]


def _split_whole(batch: Batch, count: int, index: int) -> None:
    """Leave of whole rows the parts of a rank."""
    for key in (*CELLS, "attention_mask"):
        if batch[key] is not None:
            dim = 2 if key == "attention_mask" else 1
            batch[key] = _head_and_tail(batch[key], dim, count, index)


def _join_rows(batch: Batch) -> None:
    """Make one row of all, with one list of boundaries."""
    boundaries, longest = batch["cu_seqlens"], batch["max_seqlen"]
    begins = torch.arange(len(boundaries), dtype=torch.int32) * boundaries[0, -1]
    batch["cu_seqlens"] = torch.unique(boundaries + begins[:, None])[None]
    batch["max_seqlen"] = longest.amax()[None]
    for key in CELLS:
        values = batch[key]
        if values is not None:
            batch[key] = values.reshape(1, -1)


def _head_and_tail(values: torch.Tensor, dim: int, count: int, index: int) -> torch.Tensor:
    """Return part `index` and its mirror from the end, of twice `count` parts."""
    parts = values.chunk(2 * count, dim)
    return torch.cat([parts[index], parts[-1 - index]], dim)
