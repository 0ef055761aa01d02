"""Pictures as thumbnails."""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch
from sweephand.ext.view.figures import (
    and_more,
    as_floats,
    class_name,
    first_rows,
    short_ids,
    spread_of,
)
from sweephand.ext.view.markup import Markup, figure, joined, tag
from sweephand.ext.view.png import image, shrunk

SIDE = 80  # pixels of a thumbnail, at most
_SHOWN = 12
_LABELS = 3
_CHANNELS = (1, 3, 4)


def pictures_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return the first pictures of a stream, with the numbers of their sequences."""
    head = first_rows(minibatch, _SHOWN)
    whole = [_channels_last(one) for one in head[key].values[:_SHOWN]]
    return _figure(head, key, whole, minibatch[key].num_samples)


def patches_figure(minibatch: Minibatch, key: Any) -> Markup | None:
    """Return the first pictures of which a stream has the patches, as `patchify` orders them.

    None if it has no patches of pictures, or no stream beside them has their grids.
    """
    head = first_rows(minibatch, _SHOWN)
    data = head[key]
    grids = [
        name
        for name, one in head.items()
        if one.info.carried and one.info.shape == (3,) and one.info.dtype.kind == "i"
    ]
    frames = [
        n for n in (1, 2) if _edge(data.info.shape[0], n) ** 2 * 3 * n == data.info.shape[0]
    ]
    if not data.info.carried or not grids or not frames:
        return None
    extents = head[grids[0]].values
    ends = np.cumsum(extents.prod(axis=1))
    if not len(ends) or ends[-1] != data.num_samples:
        return None
    edge = _edge(data.info.shape[0], frames[0])
    pixels = data.values.reshape(-1, 3, frames[0], edge, edge)[:, :, 0]
    whole = []
    for (_, rows, columns), patches in zip(
        extents[:_SHOWN], np.split(pixels, ends), strict=False
    ):
        # Which patches become one vector is not known: the smoothest picture is the right one.
        merges = [n for n in (1, 2) if rows % n == columns % n == 0]
        joined = [_joined(patches, rows, columns, merge) for merge in merges]
        whole.append(min(joined, key=_roughness))
    return _figure(head, grids[0], whole, minibatch[grids[0]].num_samples)


def _edge(width: int, frames: int) -> int:
    return isqrt(width // (3 * frames))


def _joined(patches: NDArray[Any], rows: int, columns: int, merge: int) -> NDArray[Any]:
    """Return the picture of patches, those of squares of ``merge`` patches being neighbours."""
    edge = patches.shape[-1]
    shape = (rows // merge, columns // merge, merge, merge, 3, edge, edge)
    ordered = patches.reshape(shape).transpose(0, 2, 5, 1, 3, 6, 4)
    return ordered.reshape(rows * edge, columns * edge, 3)


def _roughness(picture: NDArray[Any]) -> float:
    floats = as_floats(picture)
    return float(sum(np.abs(np.diff(floats, axis=axis)).sum() for axis in (0, 1)))


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
