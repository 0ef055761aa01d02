"""Height and width of stored pictures in common formats, by their first bytes."""

from __future__ import annotations

from struct import error as StructError
from struct import unpack_from
from typing import Any, NamedTuple

import numpy as np

from sweephand.ext.vision.images.transforms import Picture
from sweephand.extend import MOST_PIXEL_BYTES, OptionalModule, open_picture

ORIENTATION = 0x0112  # tag of EXIF
ON_THEIR_SIDE = range(5, 9)  # values of it that swap height and width

HEAD_BYTES = 1 << 14  # thumbnails of EXIF come before

_JPEG = b"\xff\xd8"
_PNG_ORIENTED = (b"eXIf", b"XML:com", b"Raw profile type exif")  # the last by ImageMagick
_MARKER = 0xFF  # begins every segment of a JPEG
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # segments that hold the extent
_APP1 = 0xE1  # EXIF and XMP
_EXIF = b"Exif\0\0"
_SHORT = 3  # type of EXIF's values
# Tables, comments and data of applications that may come before.
_SEGMENTS = frozenset({0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)})


class JpegFrame(NamedTuple):
    """Header of the picture in a JPEG."""

    kind: int  # the marker of its segment, which says how it is coded
    # of a pixel
    bits: int
    height: int
    width: int
    channels: int
    orientation: int | None  # of EXIF; 0 if there is none; None if it is unusual


def jpeg_frame(content: bytes) -> JpegFrame | None:
    """Return the header of the picture in a usual JPEG; None if something is unusual."""
    if not content.startswith(_JPEG):
        return None
    at, end = 2, len(content) - 9
    exif, has_xmp = b"", False
    while at < end and content[at] == _MARKER:
        kind, size = content[at + 1], int.from_bytes(content[at + 2 : at + 4], "big")
        if kind == _APP1 and content.startswith(_EXIF, at + 4):
            if exif:
                return None
            exif = content[at + 4 + len(_EXIF) : at + 2 + size]
        elif kind == _APP1:
            has_xmp = True
        elif kind in _FRAMES:
            bits, height, width, channels = unpack_from(">BHHB", content, at + 4)
            turned = _exif_orientation(exif) if exif else 0
            if turned == 0 and has_xmp:
                turned = None  # or XMP has it
            return JpegFrame(kind, bits, height, width, channels, turned)
        elif kind not in _SEGMENTS:
            return None
        at += 2 + size
    return None


def jpeg_extent(content: bytes, *, upright: bool) -> tuple[int, int] | None:
    """Return height and width of a usual JPEG, also by its first `HEAD_BYTES`, else None."""
    frame = jpeg_frame(content)
    if frame is None or not (frame.height and frame.width):
        return None
    turned = frame.orientation if upright else 1
    if turned is None:
        return None
    height, width = frame.height, frame.width
    return (width, height) if turned in ON_THEIR_SIDE else (height, width)


def _exif_orientation(exif: bytes) -> int | None:
    """Return the orientation, 0 if there is none; None if something is unusual."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    try:
        if order is None:
            return None
        (begin,) = unpack_from(f"{order}I", exif, 4)
        (count,) = unpack_from(f"{order}H", exif, begin)
        for entry in range(begin + 2, begin + 2 + 12 * count, 12):
            tag, kind, number, value = unpack_from(f"{order}HHIH", exif, entry)
            if tag == ORIENTATION:
                return value if (kind, number) == (_SHORT, 1) and value else None
    except StructError:
        return None
    return 0


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
    wanted = -(-frame.height // scale), -(-frame.width // scale)
    try:
        with open_picture(content) as image:
            image.draft(None, (max(1, frame.width // scale), max(1, frame.height // scale)))
            picture = np.asarray(image.convert("RGB"))
    except Exception as error:  # as in `picture_of`
        raise _damaged(content, error) from error
    if picture.shape[:2] != wanted:
        raise ValueError(
            f"the JPEG was to have {wanted} pixels at 1/{scale} of its size, Pillow finds "
            f"{picture.shape[:2]}"
        )
    return picture


def extent_of(
    content: bytes, *, upright: bool, max_bytes: int | None = None
) -> tuple[int, int]:
    """Return height and width of stored bytes, of which only the header is read.

    ValueError if they are of no format that is decoded.
    """
    found = jpeg_extent(content, upright=upright)
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
        # Most: they need not be asked for what takes its time to parse. PNG may tell it after
        # its pixels, which Pillow decodes to find that out.
        if image.format == "JPEG":
            return 1
        if image.format == "PNG" and not any(name in content for name in _PNG_ORIENTED):
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
