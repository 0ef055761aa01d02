"""Pictures as thumbnails, heat maps, and the PNG of both."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch
from sweephand.ext.view.page import (
    Markup,
    and_more,
    as_floats,
    class_name,
    figure,
    first_rows,
    joined,
    short_ids,
    spread_of,
    tag,
)

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

    Numbers that are not finite are red.
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


SIDE = 80  # pixels of a thumbnail, at most
_SHOWN = 12
_LABELS = 3
_CHANNELS = (1, 3, 4)


def pictures_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return the first pictures of a stream, with the numbers of their sequences."""
    head = first_rows(minibatch, _SHOWN)
    whole = [_channels_last(one) for one in head[key].values[:_SHOWN]]
    return _figure(head, key, whole, minibatch[key].num_samples)


def _figure(head: Minibatch, key: Any, whole: list[NDArray[Any]], num: int) -> Markup:
    """Return a figure of pictures, each a sample of the stream ``key``."""
    whose = np.repeat(np.arange(head.num_sequences), head[key].lengths)[:_SHOWN].tolist()
    pictures = [_sampled(one) for one in whole]
    is_bytes = all(one.dtype == np.uint8 for one in whole)
    note = None if is_bytes or not pictures else f"Scaled: {spread_of(pictures)}. "
    pixels = pictures if is_bytes else _scaled(pictures)
    ids, labels = short_ids(head), _labels(head)
    tiles = [
        captioned(
            image(_thumbnail(picture), f"{ids[place]}, {size.shape[1]} by {size.shape[0]}"),
            ids[place],
            labels[place],
        )
        for picture, size, place in zip(pixels, whole, whose, strict=True)
    ]
    rest = and_more(len(tiles), num, "pictures")
    return figure(tag("div", *tiles, class_="tiles pictures"), caption=joined([note, rest]))


def captioned(shown: Markup, name: str, note: str, class_: str = "tile") -> Markup:
    """Return a figure of one sample with its id and a note."""
    words = joined([tag("code", name), tag("small", note) if note else None])
    return tag("figure", shown, tag("figcaption", words), class_=class_)


def _channels_last(picture: NDArray[Any]) -> NDArray[Any]:
    if picture.ndim == 2:
        return picture[..., None]
    return picture if picture.shape[-1] in _CHANNELS else np.moveaxis(picture, 0, -1)


def _sampled(picture: NDArray[Any]) -> NDArray[Any]:
    """Return a large picture reduced to pixels at equal distances."""
    step = max(1, max(picture.shape[:2]) // (4 * SIDE))
    return picture[::step, ::step]


def _scaled(pictures: list[NDArray[Any]]) -> list[NDArray[np.uint8]]:
    """Return pictures of any numbers as bytes, by the least and the greatest of all."""
    floats = [np.nan_to_num(as_floats(one), posinf=0, neginf=0) for one in pictures]
    low = min((one.min(initial=np.inf) for one in floats), default=0)
    high = max((one.max(initial=-np.inf) for one in floats), default=0)
    span = high - low or 1.0
    return [((one - low) / span * 255).round().astype(np.uint8) for one in floats]


def _thumbnail(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = picture.shape[:2]
    scale = min(1.0, SIDE / max(height, width))
    small = shrunk(picture, max(1, round(height * scale)), max(1, round(width * scale)))
    return np.ascontiguousarray(small.round().astype(np.uint8))


def _labels(minibatch: Minibatch) -> list[str]:
    """Return the numbers that each sequence has beside its picture."""
    columns = {
        data.info: data.values
        for data in minibatch.values()
        if data.info.is_single and not data.info.shape and not data.info.is_variable
    }
    return [
        ", ".join(
            f"{info.name} {class_name(info, values[place])}"
            for info, values in list(columns.items())[:_LABELS]
        )
        for place in range(minibatch.num_sequences)
    ]
