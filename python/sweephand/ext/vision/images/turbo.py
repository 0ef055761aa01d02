"""Stored JPEGs by libjpeg-turbo alone, to the bits that Pillow gives.

Pillow decodes by libjpeg-turbo too, and takes a tenth to a fifth of the time for the rest.
"""

from __future__ import annotations

import warnings
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np

from sweephand import SweephandHint
from sweephand.ext.vision.images.headers import JpegFrame, jpeg_frame
from sweephand.ext.vision.images.steps import Picture
from sweephand.extend import MOST_PIXEL_BYTES, OptionalModule, open_picture

Image: Any = OptionalModule("PIL.Image", extra="image")

SCALES = (8, 4, 2)
"""By which a JPEG may be made smaller while it is decoded."""

_KINDS = (0xC0, 0xC1, 0xC2)  # baseline, extended and progressive, each by Huffman's code
_UPRIGHT = (0, 1)  # orientations of EXIF
_CHANNELS = (1, 3)
_BITS = 8


def plain_frame(
    content: bytes, *, upright: bool, max_bytes: int | None = None
) -> JpegFrame | None:
    """Return the header of a JPEG of grey or colours that need not be turned; else None.

    None also if it takes more memory than `max_bytes`, so that Pillow refuses it.
    """
    frame = jpeg_frame(content)
    if frame is None or frame.kind not in _KINDS or frame.bits != _BITS:
        return None
    if frame.channels not in _CHANNELS or (upright and frame.orientation not in _UPRIGHT):
        return None
    most = Image().MAX_IMAGE_PIXELS  # which users may change
    num_pixels = frame.height * frame.width
    if max_bytes is not None and num_pixels * MOST_PIXEL_BYTES > max_bytes:
        return None
    return frame if num_pixels and (most is None or num_pixels <= most) else None


def decoded(content: bytes, *, upright: bool, max_bytes: int | None = None) -> Picture | None:
    """Return a stored JPEG in colours, of shape (height, width, 3).

    None if Pillow is to decode it: it is no plain JPEG or damaged, or simplejpeg is not
    installed, or not of the same bits here.
    """
    frame = plain_frame(content, upright=upright, max_bytes=max_bytes)
    return None if frame is None or not _is_same() else _by_turbo(content, frame, 1)


def scaled(content: bytes, frame: JpegFrame, scale: int) -> Picture:
    """Return a JPEG as `decoded` does, its height and width divided by `scale`."""
    found = _by_turbo(content, frame, scale) if _is_same() else None
    return _by_pillow(content, frame, scale) if found is None else found


def _by_turbo(content: bytes, frame: JpegFrame, scale: int) -> Picture | None:
    height, width = _extent(frame, scale)
    try:
        picture: Picture = _simplejpeg().decode_jpeg(
            content, "RGB", min_height=height, min_width=width, min_factor=scale
        )
    except ValueError:  # also where Pillow makes the best of it
        return None
    if picture.shape != (height, width, 3):
        return None
    picture.flags.writeable = False  # as Pillow's are
    return picture


def _by_pillow(content: bytes, frame: JpegFrame, scale: int) -> Picture:
    with open_picture(content) as image:
        if scale > 1:
            image.draft(None, (max(1, frame.width // scale), max(1, frame.height // scale)))
        picture = np.asarray(image.convert("RGB"))
    if picture.shape[:2] != _extent(frame, scale):
        raise ValueError(
            f"the JPEG was to have {_extent(frame, scale)} pixels at 1/{scale} of its size, "
            f"Pillow finds {picture.shape[:2]}"
        )
    return picture


def _extent(frame: JpegFrame, scale: int) -> tuple[int, int]:
    return -(-frame.height // scale), -(-frame.width // scale)


@cache
def _simplejpeg() -> Any:
    """Return the module; None if it is not installed."""
    try:
        return OptionalModule("simplejpeg", extra="turbo")()
    except ImportError:
        return None


@cache
def _is_same() -> bool:
    """Return True if simplejpeg is there, and its libjpeg gives the bits of Pillow's.

    Tried once in a process: Pillow may be built with another library.
    """
    if _simplejpeg() is None:
        return False
    height, width = 43, 61
    numbers = np.arange(height * width * 3, dtype=np.uint32) * 2654435761 >> 24
    pixels = numbers.astype(np.uint8).reshape(height, width, 3)
    for subsampling in (0, 1, 2):
        file = BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=80, subsampling=subsampling)
        jpeg = file.getvalue()
        frame = plain_frame(jpeg, upright=True)
        for scale in (1, *SCALES):
            found = None if frame is None else _by_turbo(jpeg, frame, scale)
            if frame is None or found is None:
                return False
            if not np.array_equal(found, _by_pillow(jpeg, frame, scale)):
                warnings.warn(
                    "simplejpeg and Pillow decode JPEGs to different bits here, so Pillow "
                    "decodes them all; its wheels have the same library",
                    SweephandHint,
                    stacklevel=2,
                )
                return False
    return True
