"""Pictures by Pillow, which lets other threads go on while it decodes."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from typing import Any

import numpy as np

from sweephand import _core
from sweephand.checks import OptionalModule
from sweephand.images.steps import Picture

Image: Any = OptionalModule("PIL.Image", extra="image")
ImageOps: Any = OptionalModule("PIL.ImageOps", extra="image")

_ORIENTATION = 0x0112  # of EXIF
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
            if upright and _orientation(opened) != 1:
                image = ImageOps.exif_transpose(opened)
            picture = _convert(image, mode)
    except _Refused as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # damaged bytes make it raise a dozen kinds
        raise ValueError(
            f"{len(content)} bytes are no picture that can be decoded: {_reason(error)}"
        ) from error
    return picture if picture.ndim == 3 else picture[..., None]


def _orientation(image: Any) -> int:
    if image.format == "JPEG" and not image.info.keys() & _TELLS_ORIENTATION:
        return 1  # most: they need not be asked for what takes its time to parse
    found: int = image.getexif().get(_ORIENTATION, 1)
    return found


class _Refused(ValueError):
    """A picture that is none for the mode."""


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
