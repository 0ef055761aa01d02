"""The shapes of the losses that a criterion returns for the minibatch of a source."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from sweephand.minibatch.labels import LABELS
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.minibatch_data import MinibatchData

Shape: TypeAlias = tuple[int, ...]


class LossPlaces(NamedTuple):
    """Places of the losses of a minibatch."""

    # the stream that has a loss for each sample or cell; None: a loss for each sequence
    data: MinibatchData | None = None
    # columns of the cells in its dense array; None: a loss for each of its samples
    width: int | None = None


def find_losses(minibatch: Minibatch, shape: Shape, wanted: str) -> LossPlaces:
    """Return what losses of a shape are of, or raise ValueError with the shapes that fit.

    Streams are tried in turn, ``labels`` first. The error begins with what was wanted.
    """
    size, count = math.prod(shape), minibatch.num_sequences
    if size == count or (count == 0 and size == 1):  # the sum over an empty share
        return LossPlaces()
    for data in _streams(minibatch):
        if data.num_samples == size and _is_flat(shape):
            return LossPlaces(data)
        if (width := _width(data, shape)) is not None:
            return LossPlaces(data, width)
    found = "their sum" if size == 1 else f"an array of shape {shape}"
    raise ValueError(f"{wanted}, got {found}; {_fitting(minibatch)}")


def check_losses(minibatch: object, shape: Shape) -> None:
    """Raise ValueError if losses of a minibatch of a source have none of these shapes."""
    if isinstance(minibatch, Minibatch):
        wanted = "the criterion must return the sum of the loss as a tensor or a number, or "
        find_losses(minibatch, shape, wanted + "losses that make it up")


def _is_flat(shape: Shape) -> bool:
    return math.prod(shape) == max(shape, default=1)


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


def _fitting(minibatch: Minibatch) -> str:
    """Describe the shapes that fit."""
    shapes = [f"({minibatch.num_sequences},) of its sequences"]
    for data in _streams(minibatch):
        name = data.info.name
        shapes.append(f"({data.num_samples},) of the samples of {name!r}")
        if not data.info.is_single:
            shapes.append(f"{data.dense_shape[:2]} of its cells")
    return f"shapes that fit are {', '.join(shapes[:5])}"
