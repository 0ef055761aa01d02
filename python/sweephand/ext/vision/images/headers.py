"""Height and width of stored pictures in common formats, by their first bytes."""

from __future__ import annotations

from struct import error as StructError
from struct import unpack_from
from typing import NamedTuple

ORIENTATION = 0x0112  # tag of EXIF
ON_THEIR_SIDE = range(5, 9)  # values of it that swap height and width

HEAD_BYTES = 1 << 14  # thumbnails of EXIF come before

_JPEG = b"\xff\xd8"
_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_PNG_ORIENTED = (b"eXIf", b"XML:com", b"Raw profile type exif")  # the last by ImageMagick
_PNG_EXTENT = 16  # where width and height begin
_MARKER = 0xFF  # begins every segment of a JPEG
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # segments that hold the extent
_APP1 = 0xE1  # EXIF and XMP
_EXIF = b"Exif\0\0"
_SHORT = 3  # type of EXIF's values
# Tables, comments and data of applications that may come before.
_SEGMENTS = frozenset({0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)})


def header_extent(content: bytes, *, upright: bool) -> tuple[int, int] | None:
    """Return height and width of a usual JPEG or PNG; None if something is unusual.

    Pillow takes 10 times as long for them, most of it for what it makes to decode them.
    """
    if content.startswith(_JPEG):
        return jpeg_extent(content, upright=upright)
    if content.startswith(_PNG) and len(content) >= _PNG_EXTENT + 8 and is_plain_png(content):
        width, height = unpack_from(">II", content, _PNG_EXTENT)
        return height, width
    return None


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


def is_plain_png(png: bytes) -> bool:
    """Return True if no EXIF or XMP can give a PNG an orientation."""
    return not any(name in png for name in _PNG_ORIENTED)
