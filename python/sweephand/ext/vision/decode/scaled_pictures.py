"""Stored JPEGs decoded at 1/2, 1/4 or 1/8 of their size, where the first step needs no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sweephand.ext.vision.images.crops import Box, Extent, PartOfOneSize
from sweephand.ext.vision.images.picture_map import PictureMap, Steps
from sweephand.ext.vision.images.resizing import FloatBox, resized
from sweephand.ext.vision.images.steps import Compose, Picture
from sweephand.ext.vision.images.stored import scaled_picture_of
from sweephand.ext.vision.images.turbo import SCALES, plain_frame


class ScaledPictures(PictureMap):
    """Decodes no more pixels than the first step needs; see ``scaled`` of `image`.

    Keys, and so all draws, are those of decoding the whole picture.
    """

    variant = "scaled"

    def __init__(
        self,
        name: str,
        streams: str | Sequence[str],
        read: Callable[[Any, int | None], Picture],
        transforms: Sequence[Steps],
        *,
        channels_first: bool,
        upright: bool,
    ) -> None:
        super().__init__(name, streams, read, transforms, channels_first=channels_first)
        first, *rest = flat(transforms) or [None]
        if not isinstance(first, PartOfOneSize):
            raise ValueError(
                "scaled=True decodes what the first step needs, which is to be Resize or "
                f"RandomResizedCrop, or size=: got {first!r:.60}"
            )
        self._first, self._rest = first, Compose([one for one in rest if one is not None])
        self._read_whole = read
        self._upright = upright

    def begin(self, sample: Any, draw: np.random.Generator) -> tuple[Picture, Compose]:
        """Decode a picture and do the first step."""
        frame = None
        if isinstance(sample, bytes):
            frame = plain_frame(sample, upright=self._upright, max_bytes=self.max_bytes)
        if frame is None:
            return super().begin(sample, draw)
        box, size = self._first.part(frame.height, frame.width, draw)
        scale = _scale_for(box, size)
        how = self._first.interpolation
        top, left, height, width = box
        if scale == 1:
            part = self._read_whole(sample, self.max_bytes)[
                top : top + height, left : left + width
            ]
            return resized(part, size, how), self._rest
        picture = scaled_picture_of(sample, frame, scale)
        return resized(picture, size, how, _box_at(scale, box, picture)), self._rest


def flat(steps: Sequence[Steps]) -> list[Steps | None]:
    """Return steps, with those of a `Compose` in its place."""
    found: list[Steps | None] = []
    for one in steps:
        found += flat(one.transforms) if isinstance(one, Compose) else [one]
    return found


def _scale_for(box: Box, size: Extent) -> int:
    """Return the largest scale at which the part has as many pixels as are wanted."""
    (*_, height, width), (least_height, least_width) = box, size
    fits = (
        one for one in SCALES if height >= one * least_height and width >= one * least_width
    )
    return next(fits, 1)


def _box_at(scale: int, box: Box, picture: Picture) -> FloatBox:
    top, left, height, width = box
    bottom = min((top + height) / scale, picture.shape[0])
    right = min((left + width) / scale, picture.shape[1])
    return top / scale, left / scale, bottom, right
