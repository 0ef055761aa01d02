"""Pictures as PNG, small enough for a page."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.ext.view.markup import Markup, tag

_KINDS = {1: 0, 3: 2, 4: 6}  # channels to PNG's kind of colour
# Colours of a heat map from low to high, at equal distances.
_RAMP = np.array(
    [[35, 30, 70], [40, 85, 140], [30, 150, 140], [130, 200, 90], [250, 230, 60]], np.float64
)


def image(picture: NDArray[np.uint8], alt: str, **attributes: Any) -> Markup:
    """Return an element that shows a picture of shape (height, width, 1, 3 or 4 channels)."""
    data = base64.b64encode(encode(picture)).decode()
    height, width = picture.shape[:2]
    source = f"data:image/png;base64,{data}"
    return tag("img", src=source, alt=alt, width=width, height=height, **attributes)


def encode(picture: NDArray[np.uint8]) -> bytes:
    """Return a picture of shape (height, width, channels) as the bytes of a PNG file."""
    height, width, channels = picture.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each after its filter, 0
    lines[:, 1:] = picture.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, _KINDS[channels], 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    )


def shrunk(values: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Return an array of at most a height and a width, each element a mean over a block."""
    by_rows = _means(values, height, 0)
    return _means(by_rows, width, 1)


def _means(values: NDArray[Any], most: int, axis: int) -> NDArray[Any]:
    length = values.shape[axis]
    if length <= most:
        return values
    starts = np.arange(most) * length // most
    counts = np.diff(np.append(starts, length))
    sums = np.add.reduceat(values.astype(np.float64), starts, axis=axis)
    shape = [1] * values.ndim
    shape[axis] = most
    return sums / counts.reshape(shape)


def heat(values: NDArray[np.float64], height: int, width: int) -> NDArray[np.uint8]:
    """Return numbers of shape (rows, columns) as a picture, from dark (low) to bright (high).

    What is not finite is red.
    """
    finite = np.isfinite(values)
    low = values[finite].min(initial=np.inf)
    high = values[finite].max(initial=-np.inf)
    span = high - low if high > low else 1.0
    small = shrunk(np.where(finite, values, np.nan), height, width)
    is_odd = ~np.isfinite(small)
    place = np.where(is_odd, 0.0, (small - low) / span).clip(0, 1) * (len(_RAMP) - 1)
    below = place.astype(np.int64).clip(0, len(_RAMP) - 2)
    part = (place - below)[..., None]
    colours = _RAMP[below] * (1 - part) + _RAMP[below + 1] * part
    colours[is_odd] = (220, 40, 40)
    pixels: NDArray[np.uint8] = colours.round().astype(np.uint8)
    return pixels
