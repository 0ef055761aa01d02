"""Resizing of pictures: by the core to the bits of Pillow 13, by Pillow in rare cases."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweephand.ext.vision.images.pixels import packed
from sweephand.ext.vision.images.steps import Picture
from sweephand.extend import OptionalModule, _core

Image: Any = OptionalModule("PIL.Image", extra="image")

_FILTERS = ("bilinear", "bicubic", "nearest", "lanczos", "box", "hamming")
_OF_THE_CORE = {
    name: getattr(_core.base.Filter, name) for name in ("bilinear", "bicubic", "box")
}
FloatBox = tuple[float, float, float, float]
_PIXEL = 4  # bytes that the core makes of each


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
    how = _OF_THE_CORE.get(interpolation)
    if how is not None and picture.dtype == np.uint8 and channels <= _PIXEL and picture.size:
        return _by_core(picture, (0, 0, *picture.shape[:2]), size, how)
    return _by_pillow(picture, size, interpolation)


def resized_part(
    picture: Picture, box: FloatBox, size: tuple[int, int], interpolation: str
) -> Picture:
    """Return a part of a picture of uint8 in three channels, in another size.

    Its borders may lie within pixels, and what the filter reaches beyond them counts.

    Parameters
    ----------
    box : (float, float, float, float)
        Top, left, bottom and right.
    """
    how = _OF_THE_CORE.get(interpolation)
    if how is not None:
        return _by_core(picture, box, size, how)
    top, left, bottom, right = box
    image = Image.frombuffer("RGB", picture.shape[1::-1], _bytes(picture), "raw", "RGB", 0, 1)
    how = getattr(Image.Resampling, interpolation.upper())
    return np.asarray(image.resize(size[::-1], how, (left, top, right, bottom)))


def _by_core(picture: Picture, box: FloatBox, size: tuple[int, int], how: Any) -> Picture:
    """Return a part of a picture in another size, to the bits that Pillow gives."""
    height, width = size
    memory = _core.read.empty_bytes(height * width * _PIXEL)
    _core.base.resize(picture, box, how, size, memory)
    return memory.reshape(height, width, _PIXEL)[..., : picture.shape[2]]


def _by_pillow(picture: Picture, size: tuple[int, int], interpolation: str) -> Picture:
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
