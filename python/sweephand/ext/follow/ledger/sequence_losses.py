"""Losses of tokens, cells or segments, summed for each sequence of a minibatch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch, MinibatchData
from sweephand.extend import LABELS, _core

Shape = tuple[int, ...]

_TOLERANCE = 1e-6  # of the sum of magnitudes, that may be in gaps


def sequence_losses(minibatch: Minibatch, losses: Any) -> NDArray[np.float32]:
    """Return the loss of each sequence of a minibatch, or of each piece in its rows.

    Losses are those of `LossLedger.record`. Streams are tried in turn, ``labels`` first; a
    single number is the loss of a share of one sequence. Sums are made in float64. ValueError
    is raised if losses have another shape, or those in the gaps of a dense array are not 0.
    """
    values = _as_array(losses)
    if _are_of_sequences(minibatch, values.shape):
        return values.reshape(-1)[: minibatch.num_sequences].copy()  # the caller's may change
    for data in _streams(minibatch):
        if _are_of_samples(data, values.shape):
            return _sums(values, data.offsets[:-1], data.lengths).astype(np.float32)
        if (width := _width(data, values.shape)) is not None:
            sums = _sums_of_cells(minibatch, data, values, width)
            _refuse_gaps(sums[:-1], float(sums[-1]))
            return sums[:-1].astype(np.float32)
    raise ValueError(
        f"a ledger needs a loss for each sequence of the minibatch, got "
        f"{'their sum' if values.size == 1 else f'an array of shape {values.shape}'}; "
        f"{_fitting(minibatch)}"
    )


def check_losses(minibatch: object, shape: Shape) -> None:
    """Raise ValueError if losses of a minibatch of a source have none of these shapes."""
    if not isinstance(minibatch, Minibatch) or _are_of_sequences(minibatch, shape):
        return
    for data in _streams(minibatch):
        if _are_of_samples(data, shape) or _width(data, shape) is not None:
            return
    raise ValueError(
        "the criterion must return the sum of the loss as a tensor or a number, or losses that "
        f"make it up, got an array of shape {shape}; {_fitting(minibatch)}"
    )


def _as_array(losses: Any) -> NDArray[np.float32]:
    if hasattr(losses, "detach"):  # a tensor, which may be of a type that NumPy lacks
        losses = losses.detach().float().cpu().numpy()
    return np.ascontiguousarray(losses, np.float32)


def _is_flat(shape: Shape) -> bool:
    return math.prod(shape) == max(shape, default=1)


def _are_of_sequences(minibatch: Minibatch, shape: Shape) -> bool:
    size, count = math.prod(shape), minibatch.num_sequences
    return size == count or (count == 0 and size == 1)  # the sum over an empty share


def _are_of_samples(data: MinibatchData, shape: Shape) -> bool:
    return data.num_samples == math.prod(shape) and _is_flat(shape)


def _streams(minibatch: Minibatch) -> Iterator[MinibatchData]:
    if LABELS in minibatch:
        yield minibatch[LABELS]
    yield from (minibatch[key] for key in minibatch if key != LABELS)


def _width(data: MinibatchData, shape: Shape) -> int | None:
    """Return how many columns losses have if they are of the dense array of a stream."""
    if data.info.is_single:
        return None
    rows, columns, *_ = data.dense_shape
    for width in (columns, columns - 1):
        if math.prod(shape) == rows * width and (_is_flat(shape) or shape[0] == rows):
            return width
    return None


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


def _fitting(minibatch: Minibatch) -> str:
    """Describe the shapes that fit."""
    shapes = [f"({minibatch.num_sequences},) of its sequences"]
    for data in _streams(minibatch):
        name = data.info.name
        shapes.append(f"({data.num_samples},) of the samples of {name!r}")
        if not data.info.is_single:
            shapes.append(f"{data.dense_shape[:2]} of its cells")
    return f"shapes that fit are {', '.join(shapes[:5])}"
