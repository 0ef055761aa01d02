"""Stored pictures as Pillow opens them: of some formats, and of a size that memory holds."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import Any

from sweephand.base.checks import OptionalModule, check_memory

Image: Any = OptionalModule("PIL.Image", extra="image")

# Others are decoded by programs of the machine (EPS), or by code that is rarely tried.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
MOST_PIXEL_BYTES = 18
"""The most bytes of a pixel until it is in a turned picture of another mode."""
_LARGE_PIXELS = {"WEBP": 27, "JPEG2000": 27, "AVIF": 27}  # the same, of formats
_TILE = (322, 323)  # tags of TIFF: width and height


def open_picture(content: bytes, max_bytes: int | None = None) -> Any:
    """Return an image of Pillow's, whose header alone is read.

    ValueError if it is of another format, or would take more than `max_bytes`, by default than
    the machine has; damage raises anything.
    """
    try:
        image = Image.open(BytesIO(content), formats=_formats())
    except Image().UnidentifiedImageError:  # which names an object of Python
        raise ValueError(f"they are none of {', '.join(_FORMATS)}") from None
    width, height = image.size
    if image.format == "TIFF":  # a whole tile is decoded, however small the picture
        wide, high = (image.tag_v2.get(tag, 0) for tag in _TILE)
        width, height = max(width, wide), max(height, high)
    needed = width * height * _LARGE_PIXELS.get(image.format, MOST_PIXEL_BYTES)
    check_memory(f"a picture of {height} x {width} pixels", needed, max_bytes)
    return image


@cache
def _formats() -> tuple[str, ...]:
    """Return the formats that this Pillow has."""
    Image.init()
    return tuple(one for one in _FORMATS if one in Image.OPEN)
