"""Concatenated documents, each padded to a length that context parallelism splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from sweephand.extend import Share
from sweephand.torch import to_tensor


@dataclass(frozen=True)
class Documents:
    """Documents of packed rows, laid out anew without the padding of the rows."""

    cells: NDArray[np.int64]  # where in the rows every token is, one row after the other
    places: NDArray[np.int64]  # where it comes to be
    # tokens up to the end of each document, and cells up to the end of its padding
    ends: NDArray[np.int64]
    padded_ends: NDArray[np.int64]

    @classmethod
    def of(cls, share: Share, positions: torch.Tensor, multiple: int) -> Self:
        """Return the documents of a share, each padded to a multiple of `multiple` cells.

        Where a share has none, there is one without a token, so that no tensor is empty.
        """
        rows, columns, *_ = share.planned.cells().reshape(-1, 4).T.astype(np.int64)
        sizes = share.planned.sizes().astype(np.int64)
        cells = ranges(rows * positions.shape[1] + columns, sizes)
        is_begin = positions.numpy().reshape(-1)[cells] == 0  # parts of a sequence begin, too
        lengths = np.diff(np.flatnonzero(np.append(is_begin, True))) if len(cells) else [0]
        return cls.padded(cells, np.asarray(lengths), multiple)

    @classmethod
    def padded(
        cls, cells: NDArray[np.int64], lengths: NDArray[np.int64], multiple: int
    ) -> Self:
        """Return documents of these lengths, whose tokens are in these cells."""
        padded = np.maximum(-(-lengths // multiple), 1) * multiple
        ends, padded_ends = np.cumsum(lengths), np.cumsum(padded)
        return cls(cells, ranges(padded_ends - padded, lengths), ends, padded_ends)

    def take(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values of rows as one row of documents, 0 in their padding."""
        laid = torch.zeros((1, int(self.padded_ends[-1])), dtype=values.dtype)
        laid[0, to_tensor(self.places)] = values.reshape(-1)[to_tensor(self.cells)]
        return laid

    @property
    def boundaries(self) -> dict[str, torch.Tensor]:
        """Megatron's ``cu_seqlens``, ``cu_seqlens_padded`` and ``max_seqlen``."""
        padded = np.diff(self.padded_ends, prepend=0)
        return {
            "cu_seqlens": _begins(self.ends),
            "cu_seqlens_padded": _begins(self.padded_ends),
            "max_seqlen": torch.tensor([int(padded.max())], dtype=torch.int32),
        }


def ranges(begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenated numbers of all ranges."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(begins - before, lengths) + np.arange(lengths.sum())


def head_and_tail_of_each(boundaries: torch.Tensor, count: int, index: int) -> torch.Tensor:
    """Return the cells of a context-parallel rank, a head and a tail of each document."""
    begins, lengths = boundaries[:-1].numpy().astype(np.int64), boundaries.diff().numpy()
    parts = lengths.astype(np.int64) // (2 * count)
    both = np.stack([begins + index * parts, begins + (2 * count - 1 - index) * parts], 1)
    return to_tensor(ranges(both.reshape(-1), np.repeat(parts, 2)))


def _begins(ends: NDArray[np.int64]) -> torch.Tensor:
    return torch.from_numpy(np.append(0, ends).astype(np.int32))[None]
