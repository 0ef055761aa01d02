"""Which cells of dense arrays hold data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

START, VALID, GAP = 2, 1, 0


def mask_of_rows(
    lengths: NDArray[np.int64], width: int, *, pad_left: bool
) -> NDArray[np.uint8]:
    """Return the mask of sequences that have a row each: uint8, (sequences, width)."""
    column = lengths[:, None]
    place = np.arange(width) - (width - column if pad_left else 0)
    valid = (place >= 0) & (place < column)
    return np.where(valid, np.where(place == 0, START, VALID), GAP).astype(np.uint8)


def mask_of_values(offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the mask of consecutive sequences, in one row."""
    mask = np.full((1, offsets[-1]), VALID, np.uint8)
    mask[0, offsets[:-1][np.diff(offsets) > 0]] = START
    return mask


def fill_gaps(values: NDArray[Any], mask: NDArray[np.uint8], pad: Any) -> NDArray[Any]:
    """Return consecutive values as a dense array, with `pad` in its gaps."""
    valid = mask != GAP
    dense = np.full(valid.shape + values.shape[1:], pad, values.dtype)
    dense[valid] = values
    return dense
