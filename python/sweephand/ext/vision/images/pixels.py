"""The pixels of pictures, copied into contiguous memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.ext.vision.images.steps import Picture
from sweephand.extend import _core


def planes(pictures: Sequence[Picture]) -> NDArray[Any]:
    """Return pictures of one size and type, the channels first.

    Parameters
    ----------
    pictures : sequence of ndarray, shape (height, width, channels)

    Returns
    -------
    ndarray, shape (pictures, channels, height, width)
    """
    height, width, channels = pictures[0].shape
    return _copied(pictures, (channels, height, width), _core.base.copy_planes)


def packed(pictures: Sequence[Picture]) -> NDArray[Any]:
    """Return the same as they are: ndarray, shape (pictures, height, width, channels)."""
    return _copied(pictures, pictures[0].shape, _core.base.copy_packed)


def _copied(
    pictures: Sequence[Picture],
    shape: tuple[int, ...],
    copy: Callable[[Picture, NDArray[np.uint8]], None],
) -> NDArray[Any]:
    size = pictures[0].nbytes
    memory = _core.read.empty_bytes(size * len(pictures))
    for number, picture in enumerate(pictures):
        copy(picture, memory[number * size : (number + 1) * size])
    return memory.view(pictures[0].dtype).reshape(len(pictures), *shape)
