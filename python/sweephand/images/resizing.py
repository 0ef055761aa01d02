"""Resizing of pictures by Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweephand.checks import OptionalModule
from sweephand.images.pixels import packed
from sweephand.images.steps import Picture

Image: Any = OptionalModule("PIL.Image", extra="image")

_FILTERS = ("bilinear", "bicubic", "nearest", "lanczos", "box", "hamming")


def check_filter(name: str) -> str:
    """Return the name of a filter; without Pillow the error names the package to install."""
    Image()
    if name not in _FILTERS:
        raise ValueError(f"interpolation is one of {', '.join(_FILTERS)}, got {name!r:.40}")
    return name


def resized(picture: Picture, size: tuple[int, int], interpolation: str) -> Picture:
    """Return a picture in another size.

    Parameters
    ----------
    picture : ndarray of uint8 or float32, shape (height, width, channels)
    size : (int, int)
        Height and width.

    Raises
    ------
    ValueError
        If it is of another type.
    """
    if picture.shape[:2] == size:
        return picture
    if picture.dtype not in (np.uint8, np.float32):
        raise ValueError(
            f"pictures of uint8 or float32 are resized, got {picture.dtype}: put ToDtype before"
        )
    channels = picture.shape[2]
    how = getattr(Image.Resampling, interpolation.upper())
    if picture.dtype == np.uint8 and channels in (3, 4):
        # Four channels as if none were alpha: every one by itself.
        mode = "RGB" if channels == 3 else "CMYK"
        image = Image.frombuffer(mode, picture.shape[1::-1], _bytes(picture), "raw", mode, 0, 1)
        return np.asarray(image.resize(size[::-1], how))
    planes = [
        np.asarray(
            Image.fromarray(np.ascontiguousarray(picture[..., channel])).resize(size[::-1], how)
        )
        for channel in range(channels)
    ]
    return np.stack(planes, axis=-1)


def _bytes(picture: Picture) -> Picture:
    return picture if picture.flags.c_contiguous else packed([picture])[0]
