"""Stored pictures by Pillow and libjpeg-turbo, which let other threads go on meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweephand.ext.vision.images.headers import (
    ON_THEIR_SIDE,
    ORIENTATION,
    JpegFrame,
    header_extent,
    is_plain_png,
)
from sweephand.ext.vision.images.steps import Picture
from sweephand.ext.vision.images.turbo import decoded, scaled
from sweephand.extend import OptionalModule, open_picture

Image: Any = OptionalModule("PIL.Image", extra="image")
ImageOps: Any = OptionalModule("PIL.ImageOps", extra="image")

# Names in Pillow's information.
_TELLS_ORIENTATION = {"exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif"}
_OF_NUMBERS = ("P", "L", "1")  # Pillow reads a palette of all greys in their order as L
_TIFF_EXTENT = (256, 257)  # tags of width and height


def check_pillow() -> None:
    """Raise ImportError with the package to install, if there is no Pillow."""
    Image()


def picture_of(
    content: bytes, mode: str, *, upright: bool, max_bytes: int | None = None
) -> Picture:
    """Return stored bytes as an array of shape (height, width, channels)."""
    if mode == "RGB":
        found = decoded(content, upright=upright, max_bytes=max_bytes)
        if found is not None:
            return found
    try:
        with open_picture(content, max_bytes) as opened:
            opened.load()
            image = opened
            if upright and _orientation(opened, content) != 1:
                image = ImageOps.exif_transpose(opened)
            picture = _convert(image, mode)
    except _Refused as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # damaged bytes make it raise a dozen kinds
        raise _damaged(content, error) from error
    return picture if picture.ndim == 3 else picture[..., None]


def scaled_picture_of(content: bytes, frame: JpegFrame, scale: int) -> Picture:
    """Return a JPEG in colours, its height and width divided by `scale` and rounded up."""
    try:
        return scaled(content, frame, scale)
    except Exception as error:  # as in `picture_of`
        raise _damaged(content, error) from error


def extent_of(
    content: bytes, *, upright: bool, max_bytes: int | None = None
) -> tuple[int, int]:
    """Return height and width of stored bytes, of which only the header is read.

    ValueError if they are of no format that is decoded.
    """
    found = header_extent(content, upright=upright)
    if found is not None:
        return found
    try:
        with open_picture(content, max_bytes) as opened:
            width, height = opened.size
            turned = upright and _orientation(opened, content) in ON_THEIR_SIDE
            if opened.format == "TIFF":  # Pillow turns them all, some versions their sizes too
                width, height = (opened.tag_v2[tag] for tag in _TIFF_EXTENT)
                turned = _orientation(opened, content) in ON_THEIR_SIDE
    except Exception as error:  # as in `picture_of`
        raise _damaged(content, error) from error
    return (width, height) if turned else (height, width)


def _orientation(image: Any, content: bytes) -> int:
    if not image.info.keys() & _TELLS_ORIENTATION:
        # Most: they need not be asked for what takes its time to parse. PNG may tell it behind
        # its pixels, which Pillow decodes to find that out.
        if image.format == "JPEG":
            return 1
        if image.format == "PNG" and is_plain_png(content):
            return 1
    found: int = image.getexif().get(ORIENTATION, 1)
    return found


class _Refused(ValueError):
    """A picture that does not fit the mode."""


def _damaged(content: bytes, error: Exception) -> ValueError:
    """Return the same error for headers and pixels: a picture is counted once."""
    return ValueError(f"{len(content)} bytes are no picture that can be decoded: {error}")


def _convert(image: Any, mode: str) -> Picture:
    own = image.mode
    if mode == "P":
        if own not in _OF_NUMBERS:
            raise _Refused(f"the picture has colours (mode {own}), and no numbers of a palette")
        return np.asarray(image, np.uint8)
    if own.startswith("I;16") or (own == "I" and image.format == "PNG"):
        whole = np.asarray(image).astype(np.uint16)
        if mode == "I;16":
            return whole
        image = Image.fromarray((whole >> 8).astype(np.uint8))
    elif own in ("I", "F"):
        raise _Refused(f"the picture has 32 bits a pixel (mode {own}), which is no {mode}")
    elif mode == "I;16":
        raise _Refused(f"the picture has 8 bits a pixel (mode {own}), 16 are wanted")
    elif own == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return np.asarray(image if image.mode == mode else image.convert(mode))
