"""Pictures as thumbnails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweephand.view.figures import and_more, as_floats, first_rows, in_number, spread_of
from sweephand.view.markup import Markup, joined, tag
from sweephand.view.names import short_ids
from sweephand.view.png import image, shrunk

if TYPE_CHECKING:
    from sweephand.view.viewed import ViewedMinibatch

SIDE = 80  # pixels of a thumbnail, at most
_SHOWN = 12
_LABELS = 3
_CHANNELS = (1, 3, 4)


def pictures_figure(minibatch: ViewedMinibatch, key: Any) -> Markup:
    """Return the first pictures of a stream, with the numbers of their sequences."""
    head = first_rows(minibatch, _SHOWN)
    data = head[key]
    whose = np.repeat(np.arange(head.num_sequences), data.lengths)[:_SHOWN].tolist()
    whole = [_channels_last(one) for one in data.values[:_SHOWN]]
    pictures = [_sampled(one) for one in whole]
    is_bytes = data.info.dtype == np.uint8
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
    rest = and_more(len(tiles), minibatch[key].num_samples, "pictures")
    caption = tag("figcaption", note, rest) if note or rest else None
    return tag("figure", tag("div", *tiles, class_="tiles pictures"), caption)


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


def _labels(minibatch: ViewedMinibatch) -> list[str]:
    """Return the numbers that each sequence has beside its picture."""
    columns = {
        data.info.name: data.values
        for data in minibatch.values()
        if data.info.is_single and not data.info.shape and not data.info.is_variable
    }
    return [
        ", ".join(
            f"{name} {in_number(values[place])}"
            for name, values in list(columns.items())[:_LABELS]
        )
        for place in range(minibatch.num_sequences)
    ]
