"""Stored pictures by Pillow, which lets other threads go on while it decodes."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from struct import unpack_from
from typing import Any

import numpy as np

from sweephand import _core
from sweephand.checks import OptionalModule
from sweephand.images.steps import Picture

Image: Any = OptionalModule("PIL.Image", extra="image")
ImageOps: Any = OptionalModule("PIL.ImageOps", extra="image")

_ORIENTATION = 0x0112  # of EXIF
_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_PNG_EXTENT = 16  # where width and height begin
_MARKER = 0xFF  # begins every segment of a JPEG
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # segments that tell the extent
# Tables, comments and data of applications that may stand before: all but APP1.
_SEGMENTS = frozenset({0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)}) - {0xE1}
_ON_THEIR_SIDE = range(5, 9)  # values of it that swap height and width
_OF_FOUR_BYTES = {"RGB": 3, "RGBA": 4}  # channels of modes whose pixels have room for four
_TELLS_ORIENTATION = {"exif", "xmp", "XML:com.adobe.xmp"}  # names in what Pillow knows


def check_pillow() -> None:
    """Raise ImportError with the package to install, if there is no Pillow."""
    Image()


def picture_of(content: bytes, mode: str, *, upright: bool) -> Picture:
    """Return stored bytes as an array of shape (height, width, channels).

    Parameters
    ----------
    content : bytes
    mode : {"RGB", "L", "RGBA", "I;16"}
    upright : bool
        Turn it as EXIF says.

    Raises
    ------
    ValueError
        If Pillow cannot decode them, or they are cut short.
    """
    try:
        with Image.open(BytesIO(content)) as opened:
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


def extent_of(content: bytes, *, upright: bool) -> tuple[int, int]:
    """Return height and width of stored bytes, of which only the header is read.

    Raises
    ------
    ValueError
        If Pillow does not know their format.
    """
    found = _told_extent(content)
    if found is not None:
        return found
    try:
        with Image.open(BytesIO(content)) as opened:
            width, height = opened.size
            turned = upright and _orientation(opened, content) in _ON_THEIR_SIDE
    except Exception as error:  # as in `picture_of`
        raise _damaged(content, error) from error
    return (width, height) if turned else (height, width)


def _told_extent(content: bytes) -> tuple[int, int] | None:
    """Return height and width of a plain JPEG or PNG that may not lie on its side.

    Pillow takes 10 times as long for them, most of it for what it makes to decode them.
    """
    if content.startswith(b"\xff\xd8"):
        return _jpeg_extent(content)
    if content.startswith(_PNG) and len(content) >= _PNG_EXTENT + 8 and _is_plain(content):
        width, height = unpack_from(">II", content, _PNG_EXTENT)
        return height, width
    return None


def _jpeg_extent(content: bytes) -> tuple[int, int] | None:
    """Return height and width as the frame header has them; None if something is unusual."""
    at, end = 2, len(content) - 9
    while at < end and content[at] == _MARKER:
        kind = content[at + 1]
        if kind in _FRAMES:
            height, width = unpack_from(">HH", content, at + 5)
            return (height, width) if height and width else None
        if kind not in _SEGMENTS:  # EXIF and XMP among them, which tell how it lies
            return None
        at += 2 + int.from_bytes(content[at + 2 : at + 4], "big")
    return None


def _is_plain(png: bytes) -> bool:
    return b"eXIf" not in png and b"XML:com" not in png


def _orientation(image: Any, content: bytes) -> int:
    if not image.info.keys() & _TELLS_ORIENTATION:
        # Most: they need not be asked for what takes its time to parse. PNG may tell it behind
        # its pixels, which Pillow decodes to find that out.
        if image.format == "JPEG":
            return 1
        if image.format == "PNG" and _is_plain(content):
            return 1
    found: int = image.getexif().get(_ORIENTATION, 1)
    return found


class _Refused(ValueError):
    """A picture that is none for the mode."""


def _damaged(content: bytes, error: Exception) -> ValueError:
    """Return the same error for headers and pixels: a picture is counted once."""
    return ValueError(
        f"{len(content)} bytes are no picture that can be decoded: {_reason(error)}"
    )


def _reason(error: Exception) -> str:
    if isinstance(error, Image().UnidentifiedImageError):  # names an object of Python
        return "no format that Pillow knows"
    return str(error)


def _convert(image: Any, mode: str) -> Picture:
    own = image.mode
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
    return pixels_of(image if image.mode == mode else image.convert(mode))


def pixels_of(image: Any) -> Picture:
    """Return a view of the pixels, if Pillow exports them, else a copy."""
    channels = _OF_FOUR_BYTES.get(image.mode)
    if channels is not None and hasattr(image, "__arrow_c_array__"):
        with suppress(ValueError):  # a large picture lies in several pieces
            memory = _core.read.arrow_bytes(*image.__arrow_c_array__())
            return memory.reshape(image.height, image.width, 4)[..., :channels]
    return np.asarray(image)
