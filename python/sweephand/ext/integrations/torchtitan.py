"""The loader that torchtitan's trainer takes, which goes on with any number of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from sweephand import Minibatch, MinibatchSource
from sweephand.ext.integrations.packed_rows import PackedRows, row_length_of
from sweephand.extend import check_int
from sweephand.torch import DataLoader as _DataLoader
from sweephand.torch import IterableDataset

__all__ = ["IGNORE_INDEX", "DataLoader"]

IGNORE_INDEX = -100  # torchtitan's
Item: TypeAlias = tuple[dict[str, torch.Tensor], torch.Tensor]


class DataLoader(_DataLoader):
    """Deliver packed rows as ``({"input": ..., "positions": ...}, labels)``.

    It has what torchtitan's ``BaseDataLoader`` asks for, with the keywords that its trainer
    builds a loader by, those of both versions (``docs/frameworks/torchtitan.md``). All ranks
    deliver equally many items of one shape, finite sources too; a state is the same on all
    ranks, and loads with another ``dp_world_size``.

    Parameters
    ----------
    source : MinibatchSource
        In layout `Packed`. A row is no longer than `seq_len` or `max_context_length`.
    dp_world_size, dp_rank : int
        How many ranks have data of their own, and which of them this is.
    seq_len, local_batch_size : int, optional
        Tokens in a row, and rows in an item: tensors have the shape (rows, row length).
    max_context_length, num_tokens_per_batch : int, optional
        In their place in later versions: tokens in an item, a multiple of the row length;
        tensors hold row after row in the shape (tokens,).
    stream : str
        Where the tokens are.
    samples_per_iteration
        Where an iteration ends: as for `sh.torch.IterableDataset`, but by default with the
        data. "sweep" is for validation.
    tokenizer, snapshot_every_n_steps
        torchtitan gives them; they say nothing here.
    **options
        Of `sh.torch.DataLoader`: ``num_workers``, ``pin_memory``, ...

    Raises
    ------
    ValueError
        If the source has no packed rows, or rows that do not fit.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(2), np.arange(3)]})
    >>> source = sh.MinibatchSource(corpus, layout=sh.Packed(6), randomize=False, max_sweeps=1)
    >>> loader = sh.torch.torchtitan.DataLoader(
    ...     source, dp_world_size=1, dp_rank=0, seq_len=6, local_batch_size=1)
    >>> for inputs, labels in loader:
    ...     print(inputs["input"].tolist(), inputs["positions"].tolist(), labels.tolist())
    [[0, 1, 0, 1, 2, 0]] [[0, 1, 0, 1, 2, 0]] [[1, -100, 1, 2, -100, -100]]
    """

    def __init__(
        self,
        source: MinibatchSource,
        *,
        dp_world_size: int,
        dp_rank: int,
        seq_len: int | None = None,
        local_batch_size: int | None = None,
        max_context_length: int | None = None,
        num_tokens_per_batch: int | None = None,
        stream: str = "tokens",
        samples_per_iteration: int | Literal["sweep"] | None = None,
        tokenizer: object = None,
        snapshot_every_n_steps: int | None = None,
        **options: Any,
    ) -> None:
        length = row_length_of(source, "torchtitan")
        if seq_len is not None and local_batch_size is not None:
            check_int("local_batch_size", local_batch_size, 1, 2**31)
            longest, rows, is_flat = seq_len, local_batch_size, False
        elif max_context_length is not None and num_tokens_per_batch is not None:
            longest, is_flat = max_context_length, True
            rows, rest = divmod(num_tokens_per_batch, length)
            if rest or not rows:
                raise ValueError(
                    f"num_tokens_per_batch must be a multiple of the row length {length}, got "
                    f"{num_tokens_per_batch}"
                )
        else:
            raise TypeError(
                "give seq_len and local_batch_size, or max_context_length and "
                "num_tokens_per_batch, as torchtitan does"
            )
        if length > longest or (length != longest and not is_flat):
            raise ValueError(
                f"rows are {length} long, and torchtitan's config says {longest}: make the "
                f"source with layout=sh.Packed({longest})"
            )
        if source.stream_info(stream).definition.label_weights is not None:
            raise ValueError(
                f"torchtitan takes labels without weights: declare {stream!r} without "
                "label_weights, or weigh the loss in a loop of your own"
            )
        self.dp_world_size, self.dp_rank = dp_world_size, dp_rank
        dataset = IterableDataset(
            source,
            dp_world_size * rows * length,
            samples_per_iteration=samples_per_iteration,
            num_data_partitions=dp_world_size,
            partition_index=dp_rank,
            to_item=_ToItem(stream, rows, length, is_flat),
        )
        super().__init__(dataset, **options)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to the position of a state, with any number of ranks; {} changes nothing."""
        if state:  # torchtitan's checkpoints may have none
            super().load_state_dict(state)

    def close(self) -> None:
        """Close the source."""
        self.dataset.source.close()


@dataclass(frozen=True)
class _ToItem:
    """Makes an item of a share; it goes to worker processes."""

    stream: str
    num_rows: int
    row_length: int
    is_flat: bool

    def __call__(self, minibatch: Minibatch) -> Item:
        rows = PackedRows(minibatch, self.num_rows, self.row_length)
        inputs = {"input": rows.tokens(self.stream), "positions": rows.positions()}
        labels = rows.labels(self.stream, IGNORE_INDEX)
        if not self.is_flat:
            return inputs, labels
        return {name: tensor.flatten() for name, tensor in inputs.items()}, labels.flatten()


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
