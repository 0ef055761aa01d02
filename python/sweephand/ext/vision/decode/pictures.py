"""Stored pictures as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sweephand.ext.vision.images.picture_map import PictureMap, Steps
from sweephand.ext.vision.images.stored import (
    SCALES,
    check_pillow,
    picture_of,
    plain_frame,
    scaled_picture_of,
)
from sweephand.ext.vision.images.transforms import (
    Box,
    Compose,
    Extent,
    FloatBox,
    PartOfOneSize,
    Picture,
    Resize,
    Size,
    check_size,
    resized,
)
from sweephand.extend import check_flag


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


Mode = Literal["RGB", "L", "RGBA", "I;16", "P"]


def image(
    stream: str | Sequence[str],
    size: Size | None = None,
    *,
    transforms: Sequence[Steps] = (),
    mode: Mode = "RGB",
    channels_first: bool = True,
    upright: bool = True,
    scaled: bool = False,
) -> PictureMap:
    """Return a map that decodes pictures, for `Deserializer.map`.

    A sample of ``bytes`` becomes one of numbers: of one picture a sequence, or of a sequence of
    them. Bytes that are no picture, or cut short, are a `DataError` that names the sequence,
    and is counted by ``max_errors``.

    Parameters
    ----------
    stream : str, or sequence of str
        Whose samples are JPEG, PNG, WebP, GIF, BMP, TIFF, PPM, JPEG 2000 or AVIF; of several
        frames the first one. Several streams, such as a picture and its mask, draw the same.
    size : int or (int, int), optional
        Height and width that all are resized to before anything else, bilinear, or nearest for
        mode "P"; one number: both. Without it, the ``transforms`` bring them to one size, or
        they must be of one.
    transforms : sequence of Transform or callable
        Of `sweephand.images`, or functions of a (height, width, channels) array.
    mode : {"RGB", "L", "RGBA", "I;16", "P"}
        The mode to convert to: 3, 1 or 4 channels of uint8, or 1 of uint16. Palettes and CMYK
        become their colours, an alpha channel that is not wanted is left out, and of 16
        bits the upper 8 are taken. Whole 32 bits or floats a pixel are refused. "P": 1 of
        uint8, the numbers of a palette, or greys, as they are stored: masks of classes.
    channels_first : bool
        Samples of shape (channels, height, width), else (height, width, channels).
    upright : bool
        Turn pictures as their EXIF orientation says.
    scaled : bool
        Decode JPEGs at 1/2, 1/4 or 1/8 of their size where the first step, a `Resize` or
        `RandomResizedCrop` or ``size``, makes its part smaller still: quicker for large
        pictures, and a little different. All draws stay; the state of a run names it.

    Examples
    --------
    >>> import io, numpy as np, sweephand as sh
    >>> from PIL import Image
    >>> def stored(width):
    ...     file = io.BytesIO()
    ...     Image.new("RGB", (width, 20)).save(file, "PNG")
    ...     return file.getvalue()
    >>> corpus = sh.ArrayDeserializer({"png": [stored(width) for width in (20, 30, 40)]})
    >>> flip = sh.images.RandomHorizontalFlip()
    >>> source = sh.MinibatchSource(corpus.map(sh.decode.image("png", 16, transforms=[flip])))
    >>> source.next_minibatch(2)["png"].values.shape
    (2, 3, 16, 16)
    """
    if mode not in get_args(Mode):
        raise ValueError(f"mode is one of {', '.join(get_args(Mode))}, got {mode!r:.40}")
    check_pillow()
    decoder = PictureDecoder(mode, upright)
    if check_flag("scaled", scaled) and mode != "RGB":
        raise ValueError("scaled=True is for mode='RGB'")
    name = "decode_" + (stream if isinstance(stream, str) else "_".join(stream))
    steps = list(transforms)
    if size is not None:
        how = "nearest" if mode == "P" else "bilinear"
        steps.insert(0, Resize(check_size("size", size), how))
    if mode == "P" and (blending := next(filter(_blends, flat(steps)), None)):
        raise ValueError(
            f"{blending!r} would blend the numbers of mode='P': give it interpolation='nearest'"
        )
    if scaled:
        return ScaledPictures(
            name, stream, decoder, steps, channels_first=channels_first, upright=upright
        )
    return PictureMap(name, stream, decoder, steps, channels_first=channels_first)


@dataclass(frozen=True)
class PictureDecoder:
    """Makes a picture of bytes."""

    mode: Mode = "RGB"
    upright: bool = True  # whether the EXIF orientation is heeded

    def __call__(self, content: object, max_bytes: int | None = None) -> Picture:
        """Return the picture; ValueError if the bytes are no picture, or are cut short."""
        if not isinstance(content, bytes):
            raise ValueError(
                f"stored pictures are bytes, got {type(content).__name__}; arrays go through "
                "sh.images.transform"
            )
        return picture_of(content, self.mode, upright=self.upright, max_bytes=max_bytes)


def _blends(step: Steps | None) -> bool:
    return getattr(step, "interpolation", "nearest") != "nearest"
