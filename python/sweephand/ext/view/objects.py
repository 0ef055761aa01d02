"""Samples that are bytes or objects, such as texts, stored pictures and sounds."""

from __future__ import annotations

import json
from io import BytesIO
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch
from sweephand.ext.view.markup import (
    Markup,
    and_more,
    figure,
    first_rows,
    ids_of_samples,
    in_count,
    note,
    prose,
    tag,
)
from sweephand.ext.view.numbers import wave
from sweephand.ext.view.pictures import SIDE, captioned, image
from sweephand.extend import OptionalModule, open_picture

ImageOps: Any = OptionalModule("PIL.ImageOps", extra="image")
soundfile: Any = OptionalModule("soundfile", extra="audio")

_SHOWN = 12
_TEXT = 600  # characters
_HEX = 32  # bytes
_PIXELS = 64_000_000  # of a picture that is decoded
_SOUND_SECONDS = 60
_SOUND_SAMPLES = 6_000_000
_PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"BM")
_SOUNDS = (b"fLaC", b"OggS", b"ID3")


def objects_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return the first samples of a stream of bytes or objects."""
    head = first_rows(minibatch, _SHOWN)
    data = head[key]
    names = ids_of_samples(head, key, _SHOWN)
    shown = [tile_of(one, name) for one, name in zip(data.values[:_SHOWN], names, strict=True)]
    rest = and_more(len(shown), minibatch[key].num_samples, "samples")
    return figure(tag("div", *shown, class_="tiles"), caption=rest or "")


def tile_of(found: Any, name: str) -> Markup:
    """Return a sample of bytes, or an object, with its id."""
    if not isinstance(found, bytes):
        return _prose(found if isinstance(found, str) else _as_json(found), name)
    size = f"{in_count(len(found))} bytes"
    riff = found[8:12] if found[:4] == b"RIFF" else None
    try:
        if found.startswith(_PICTURES) or riff == b"WEBP":
            return captioned(_stored_picture(found, name), name, size)
        if found.startswith(_SOUNDS) or riff == b"WAVE":
            return captioned(*_stored_sound(found, name))
    except ImportError as error:
        return captioned(note(error), name, size)
    except Exception as error:  # damaged bytes make the decoders raise a dozen kinds
        reason = f"cannot be decoded: {type(error).__name__}: {error}"
        return captioned(note(reason[:_TEXT]), name, _hex(found))
    try:
        return _prose(found[: 4 * _TEXT].decode("utf-8", "strict"), name)
    except UnicodeDecodeError as error:
        if error.start > 4 * _TEXT - 4:  # the cut is in the middle of a character
            return _prose(found[: error.start].decode("utf-8"), name)
    return captioned(tag("code", _hex(found), class_="hex"), name, size)


def _prose(found: str, name: str) -> Markup:
    cut = found[:_TEXT] + ("…" if len(found) > _TEXT else "")
    return captioned(tag("bdi", prose(cut)), name, "", class_="prose")


def _as_json(found: Any) -> str:
    try:
        encoder = json.JSONEncoder(ensure_ascii=False, indent=1, default=repr)
        return "".join(islice(encoder.iterencode(found), _TEXT))  # more is not shown
    except (TypeError, ValueError):
        return repr(found)


def _hex(found: bytes) -> str:
    return found[:_HEX].hex(" ") + (" …" if len(found) > _HEX else "")


def _stored_picture(found: bytes, name: str) -> Markup:
    with open_picture(found) as opened:
        width, height = opened.size
        if width * height > _PIXELS:
            return note(f"a picture of {width} by {height} is not decoded")
        opened.draft("RGB", (2 * SIDE, 2 * SIDE))  # a JPEG is decoded at a fraction of its size
        small = opened.convert("RGBA" if "A" in opened.getbands() else "RGB")
        small.thumbnail((SIDE, SIDE))
        pixels: NDArray[np.uint8] = np.asarray(ImageOps.exif_transpose(small))
    return image(pixels, f"{name}, {width} by {height}")


def _stored_sound(found: bytes, name: str) -> tuple[Markup, str, str]:
    with soundfile.SoundFile(BytesIO(found)) as opened:
        rate, frames = opened.samplerate, opened.frames
        opened.seekable = lambda: False  # else it seeks afterwards, which not all codecs can
        shown = min(frames, _SOUND_SECONDS * rate, _SOUND_SAMPLES)
        values = opened.read(shown, always_2d=True)
    length = f"{frames / rate:.3g} s at {in_count(rate)} Hz"
    return wave(values, f"{name}, {length}"), name, length
