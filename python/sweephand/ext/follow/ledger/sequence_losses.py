"""Losses of tokens, cells or segments, summed for each sequence of a minibatch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch, MinibatchData
from sweephand.extend import _core, find_losses

_TOLERANCE = 1e-6  # of the sum of magnitudes, that may be in gaps


def sequence_losses(minibatch: Minibatch, losses: Any) -> NDArray[np.float32]:
    """Return the loss of each sequence of a minibatch, or of each piece in its rows.

    Losses are those of `LossLedger.record`. Streams are tried in turn, ``labels`` first; a
    single number is the loss of a share of one sequence. Sums are made in float64. ValueError
    is raised if losses have another shape, or those in the gaps of a dense array are not 0.
    """
    values = _as_array(losses)
    wanted = "a ledger needs a loss for each sequence of the minibatch"
    data, width = find_losses(minibatch, values.shape, wanted)
    if data is None:
        return values.reshape(-1)[: minibatch.num_sequences].copy()  # the caller's may change
    if width is None:
        return _sums(values, data.offsets[:-1], data.lengths).astype(np.float32)
    sums = _sums_of_cells(minibatch, data, values, width)
    _refuse_gaps(sums[:-1], float(sums[-1]))
    return sums[:-1].astype(np.float32)


def _as_array(losses: Any) -> NDArray[np.float32]:
    if hasattr(losses, "detach"):  # a tensor, which may be of a type that NumPy lacks
        losses = losses.detach().float().cpu().numpy()
    return np.ascontiguousarray(losses, np.float32)


def _sums_of_cells(
    minibatch: Minibatch, data: MinibatchData, values: NDArray[np.float32], width: int
) -> NDArray[np.float64]:
    """Return the sum of each sequence in rows of `width` columns, and of all cells."""
    plan = minibatch.planned
    if minibatch.layout.has_rows:
        cells, sizes = plan.cells(), plan.sizes()
    else:
        sizes = data.lengths.astype(np.uint32)
        cells = np.zeros((len(sizes), 4), np.uint32)
        cells[:, 0] = np.arange(len(sizes))
        if minibatch.layout.assemble_options.pad_left:
            cells[:, 1] = data.dense_shape[1] - sizes
    return _core.train.row_sums(values.reshape(-1), cells, sizes, width)


def _sums(
    values: NDArray[np.float32], begins: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    begins, sizes = np.ascontiguousarray(begins), np.ascontiguousarray(sizes)
    return _core.train.segment_sums(
        values.reshape(-1), begins.view(np.uint64), sizes.view(np.uint64)
    )


def _refuse_gaps(sums: NDArray[np.float64], total: float) -> None:
    """Raise if gaps have losses: the sums would not add up to that of the step."""
    missing = total - float(sums.sum())
    if not math.isfinite(missing) or abs(missing) <= _TOLERANCE * abs(total):
        return
    if abs(missing) > _TOLERANCE * float(np.abs(sums).sum()):
        raise ValueError(
            f"losses in gaps between sequences add up to {missing:.6g}: they must be 0 where "
            "minibatch[...].mask is 0"
        )
