"""Labels of a model at every cell: the next token, or the token itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.minibatch.mask import VALID
from sweephand.minibatch.pieces import Pieces


def next_tokens(
    tokens: NDArray[Any],
    mask: NDArray[np.uint8],
    ignore_index: int,
    pieces: Pieces | None = None,
    beyond: NDArray[Any] | None = None,
) -> NDArray[np.int64]:
    """Return at every cell the next token of the same sequence, else `ignore_index`."""
    labels = np.full(mask.shape, ignore_index, np.int64)
    follows = mask[:, 1:] == VALID
    np.copyto(labels[:, :-1], tokens[:, 1:], where=follows, casting="unsafe")
    if pieces is not None:
        rows, last = pieces.rows, pieces.ends - 1
        labels[rows, last] = ignore_index
        if beyond is not None:
            goes_on = pieces.goes_on
            labels[rows[goes_on], last[goes_on]] = beyond[goes_on]
    return labels


def same_tokens(
    tokens: NDArray[Any],
    mask: NDArray[np.uint8],
    ignore_index: int,
    pieces: Pieces | None = None,
) -> NDArray[np.int64]:
    """Return the tokens, but `ignore_index` where sequences and pieces start, and in gaps."""
    labels = np.full(mask.shape, ignore_index, np.int64)
    np.copyto(labels, tokens, where=mask == VALID, casting="unsafe")
    if pieces is not None:
        labels[pieces.rows, pieces.columns] = ignore_index
    return labels
