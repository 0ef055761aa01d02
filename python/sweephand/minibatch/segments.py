"""Segments: sequences of a share, pieces of them in rows, or parts, in cells of an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of, runs
from sweephand.layouts import Layout

START, VALID, PADDING = 2, 1, 0


@dataclass(frozen=True, eq=False)
class Segments:
    """Segments in the order of their samples, each in neighbouring cells of one array.

    The array is a dense one, row after row, or that of the values.
    """

    begins: NDArray[np.int64]  # the first cell of each
    sizes: NDArray[np.int64]
    # samples of the sequence before each, and of all of it; None: each is a whole sequence
    firsts: NDArray[np.int64] | None = None
    wholes: NDArray[np.int64] | None = None

    @classmethod
    def of_rows(cls, batch: _core.compose.Plan | _core.engine.Batch, layout: Layout) -> Self:
        """Return the pieces of a share; AttributeError if the layout has no rows."""
        if not layout.has_rows:
            raise AttributeError(f"rows come with Packed or TruncatedBPTT, this is {layout!r}")
        rows, columns, firsts, wholes = batch.cells().reshape(-1, 4).astype(np.int64).T
        sizes = batch.sizes().astype(np.int64)
        return cls(rows * batch.row_length + columns, sizes, firsts, wholes)

    @property
    def ends(self) -> NDArray[np.int64]:
        return self.begins + self.sizes

    def split(self, parts: SequenceParts) -> Segments:
        """Return the parts of these sequences, which are whole."""
        sequences, sizes = parts.table[:, 0], np.diff(parts.offsets)
        before = parts.offsets[:-1] - offsets_of(self.sizes)[sequences]
        return Segments(self.begins[sequences] + before, sizes)

    def starts(self, width: int) -> NDArray[np.int64]:
        """Return the column of each in rows, or minus the samples before a continued piece."""
        columns = self.begins % width
        if self.firsts is None:
            return columns
        return np.where(self.firsts > 0, -self.firsts, columns)

    def numbers(self, shape: tuple[int, ...]) -> NDArray[np.int32]:
        """Return the segment of its row that each cell holds, from 1; or 0."""
        rows = self.begins // max(1, shape[1])
        before = offsets_of(np.bincount(rows, minlength=shape[0]))
        return self._spread(np.arange(len(rows)) - before[rows] + 1, shape)

    def positions(self, shape: tuple[int, ...]) -> NDArray[np.int32]:
        """Return where in its segment each cell of a dense array is; 0 in gaps."""
        cells = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
        begins = self._spread(self.begins, shape)
        return np.where(self._spread(np.ones_like(self.sizes), shape) > 0, cells - begins, 0)

    def _spread(self, numbers: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int32]:
        """Return the number of each segment in all of its cells, and 0 in gaps."""
        spread = np.zeros(shape[0] * shape[1], np.int32)
        spread[runs(self.begins, self.sizes)] = np.repeat(numbers, self.sizes)
        return spread.reshape(shape)

    def labels(
        self,
        tokens: NDArray[Any],
        valid: NDArray[np.bool_],
        ignore_index: int,
        *,
        shifted: bool,
        beyond: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return at every cell the next token of its segment, or the token unless shifted.

        Where there is none, at the last or first cell of a segment and in gaps, it is
        `ignore_index`; `beyond` are the next tokens after segments that go on.
        """
        flat, is_there = tokens.reshape(-1), valid.reshape(-1)
        dtype = flat.dtype if flat.dtype.kind == "f" else np.dtype(np.int64)
        labels = np.full(flat.shape, ignore_index, dtype)
        filled = self.sizes > 0
        if not shifted:
            np.copyto(labels, flat, where=is_there, casting="unsafe")
            labels[self.begins[filled]] = ignore_index
            return labels.reshape(tokens.shape)
        np.copyto(labels[:-1], flat[1:], where=is_there[:-1], casting="unsafe")
        labels[self.ends[filled] - 1] = ignore_index
        if beyond is not None and self.firsts is not None and self.wholes is not None:
            goes_on = filled & (self.firsts + self.sizes < self.wholes)
            labels[self.ends[goes_on] - 1] = beyond[goes_on]
        return labels.reshape(tokens.shape)


class SequenceParts:
    """Parts of the sequences of a share, by the number that a stream gives each sample."""

    def __init__(self, numbers: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        begins = np.zeros(len(numbers), np.bool_)
        begins[1:] = numbers[1:] != numbers[:-1]
        begins[offsets[:-1][np.diff(offsets) > 0]] = True
        starts = np.flatnonzero(begins)
        # Where each part begins, and the end.
        self.offsets: NDArray[np.int64] = np.append(starts, len(numbers))
        sequences = np.searchsorted(offsets, starts, side="right") - 1
        # The sequence of each part, as the share counts, and the number of the part.
        self.table = np.stack([sequences, numbers[starts].astype(np.int64)], axis=1)


def repeat_last(
    boundaries: NDArray[np.integer], capacity: int | None, more: int = 0
) -> NDArray[np.int32]:
    """Return boundaries as int32; with a capacity, of exactly that and `more` sequences."""
    as_int32: NDArray[np.int32] = boundaries.astype(np.int32)
    if capacity is None:
        return as_int32
    found, capacity = len(as_int32) - 1, capacity + more
    if found > capacity:
        raise ValueError(
            f"the share has {found} sequences, more than the cu_seqlens_capacity of {capacity}"
        )
    return np.pad(as_int32, (0, capacity - found), mode="edge")


def mask_of_rows(
    lengths: NDArray[np.int64], width: int, *, pad_left: bool
) -> NDArray[np.uint8]:
    """Return the mask of sequences that have a row each: uint8, (sequences, width)."""
    column = lengths[:, None]
    place = np.arange(width) - (width - column if pad_left else 0)
    valid = (place >= 0) & (place < column)
    return np.where(valid, np.where(place == 0, START, VALID), PADDING).astype(np.uint8)


def fill_gaps(values: NDArray[Any], mask: NDArray[np.uint8], pad: Any) -> NDArray[Any]:
    """Return consecutive values as a dense array, with `pad` in its gaps."""
    valid = mask != PADDING
    dense = np.full(valid.shape + values.shape[1:], pad, values.dtype)
    dense[valid] = values
    return dense
