"""Packed rows as frameworks for language models want them: always as many, padding apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sweephand import Minibatch, MinibatchSource, Packed
from sweephand.extend import Share, shown
from sweephand.torch import to_tensor


class PackedRows:
    """The rows of a worker's share; at the end of data, rows of padding complete them."""

    def __init__(self, minibatch: Minibatch, num_rows: int, row_length: int) -> None:
        self._minibatch = minibatch
        self._shape = num_rows, row_length

    def tokens(self, stream: str) -> torch.Tensor:
        """Return the tokens: int64, (rows, row length)."""
        return self._whole(self._minibatch[stream].asarray(), 0)

    def labels(self, stream: str, ignore_index: int) -> torch.Tensor:
        """Return the next token of the same sequence, else `ignore_index`: int64."""
        return self._whole(self._minibatch[stream].labels(ignore_index), ignore_index)

    def loss_mask(self, stream: str) -> torch.Tensor:
        """Return the weight of each label, by default 1.0: float32, (rows, row length)."""
        return self._whole(self._minibatch[stream].label_weights(), 0, np.float32)

    def positions(self) -> torch.Tensor:
        """Return where in its sequence each cell is: int64; padding counts from 0, too."""
        found = positions_of(self._minibatch, *self._shape)
        if any(data.sequence_parts is not None for data in self._minibatch.values()):
            of_parts = self._minibatch.position_ids
            is_there = self._minibatch.segment_ids > 0
            found[: len(of_parts)][to_tensor(is_there)] = to_tensor(of_parts[is_there]).long()
        return found

    def _whole(
        self, found: NDArray[Any], fill: int, dtype: type[np.number[Any]] = np.int64
    ) -> torch.Tensor:
        """Return rows with rows of padding after them."""
        whole = np.full(self._shape, fill, dtype)
        whole[: len(found)] = found
        return to_tensor(whole)


def positions_of(share: Share, num_rows: int, row_length: int) -> torch.Tensor:
    """Return `PackedRows.positions` of a share that may be planned only."""
    columns = np.arange(row_length)
    begins = np.zeros((num_rows, row_length), np.int64)  # of the sequence of a cell
    rows, firsts, *_ = share.planned.cells().reshape(-1, 4).T.astype(np.int64)
    ends = firsts + share.planned.sizes()
    begins[rows, firsts] = firsts
    is_inside = ends < row_length
    begins[rows[is_inside], ends[is_inside]] = ends[is_inside]  # of the next one, or padding
    positions: NDArray[np.int64] = columns - np.maximum.accumulate(begins, axis=1)
    return to_tensor(positions)


def row_length_of(source: MinibatchSource, whose: str) -> int:
    """Return the length of a source's packed rows, or complain that it has none."""
    if not isinstance(source, MinibatchSource):
        raise TypeError(f"source must be a sh.MinibatchSource, got {shown(source)}")
    if not isinstance(source.layout, Packed):
        raise ValueError(
            f"{whose} takes rows of one length: make the source with "
            f"layout=sh.Packed(row_length), its layout is {source.layout!r}"
        )
    return source.layout.row_length
