"""Pictures in another size, by Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweephand.ext.vision.images.steps import Picture
from sweephand.extend import OptionalModule

Image: Any = OptionalModule("PIL.Image", extra="image")

_FILTERS = ("bilinear", "bicubic", "nearest", "lanczos", "box", "hamming")
# Four channels as if none were alpha: every one by itself.
_MODES = {3: "RGB", 4: "CMYK"}
FloatBox = tuple[float, float, float, float]


def check_filter(name: str) -> str:
    """Return the name of a filter; without Pillow the error names the package to install."""
    Image()
    if name not in _FILTERS:
        raise ValueError(f"interpolation is one of {', '.join(_FILTERS)}, got {name!r:.40}")
    return name


def resized(
    picture: Picture, size: tuple[int, int], interpolation: str, box: FloatBox | None = None
) -> Picture:
    """Return a picture, or a part of it, in another size."""
    if picture.shape[:2] == size and box is None:
        return picture
    if picture.dtype not in (np.uint8, np.float32):
        raise ValueError(
            f"pictures of uint8 or float32 are resized, got {picture.dtype}: put ToDtype before"
        )
    how = getattr(Image.Resampling, interpolation.upper())
    part = None if box is None else (box[1], box[0], box[3], box[2])
    mode = _MODES.get(picture.shape[2]) if picture.dtype == np.uint8 else None
    if mode is not None:
        whole = np.ascontiguousarray(picture)
        image = Image.frombuffer(mode, picture.shape[1::-1], whole, "raw", mode, 0, 1)
        return np.asarray(image.resize(size[::-1], how, part))
    planes = [
        Image.fromarray(np.ascontiguousarray(plane)).resize(size[::-1], how, part)
        for plane in picture.transpose(2, 0, 1)
    ]
    return np.stack(planes, axis=-1)
