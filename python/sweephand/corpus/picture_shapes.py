"""Detection of arrays of pictures where the shape of a sample is not declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_CHANNELS = (1, 3, 4)


def is_picture(value: Any) -> bool:
    """Return True for a picture of Pillow's, and for an array with the shape of a picture.

    It has three axes, of which the first or the last are channels.

    Examples
    --------
    >>> import numpy as np
    >>> [is_picture(np.zeros(shape)) for shape in [(3, 8, 8), (8, 8, 3), (8, 8), (9, 8, 8)]]
    [True, True, False, False]
    """
    if type(value).__module__.startswith("PIL."):
        return True
    shape: Sequence[int] = getattr(value, "shape", ())
    return len(shape) == 3 and (shape[0] in _CHANNELS or shape[-1] in _CHANNELS)


def common_picture_shape(values: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the common shape of pictures; None if shapes differ."""
    if not values or not all(is_picture(one) for one in values):
        return None
    shapes = {shape_of(one) for one in values}
    return shapes.pop() if len(shapes) == 1 else None


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of a picture as an array."""
    if not hasattr(value, "shape"):
        import numpy as np

        value = np.asarray(value)  # of Pillow's, whose mode decides if it has channels
    return tuple(int(extent) for extent in value.shape)
