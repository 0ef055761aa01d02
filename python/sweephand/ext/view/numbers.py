"""Samples as waves, heat maps and lines of numbers; sparse ones, bytes and objects."""

from __future__ import annotations

import json
from io import BytesIO
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch
from sweephand.ext.view.page import (
    Markup,
    and_more,
    as_floats,
    figure,
    first_rows,
    ids_of_samples,
    in_count,
    in_number,
    joined,
    note,
    prose,
    short_ids,
    spread_of,
    tag,
    wide_table,
)
from sweephand.ext.view.pictures import SIDE, captioned, heat, image
from sweephand.extend import OptionalModule, open_picture

_SHOWN = 8
_COLUMNS = 400
_HEIGHT = 48
_CHANNELS = 2


def waves_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return the first sequences of a stream of numbers; in rows its first rows."""
    head = first_rows(minibatch, _SHOWN)
    data = head[key]
    shown = [
        captioned(wave(as_floats(one), name), name, f"{in_count(len(one))} samples", "wave")
        for one, name in zip(data.as_sequences()[:_SHOWN], short_ids(head), strict=False)
    ]
    rest = and_more(len(shown), minibatch.num_sequences, "sequences")
    note = f"Numbers {spread_of(data.values)}. "
    tiles = tag("div", *shown, class_="tiles waves")
    return tag("figure", tiles, tag("figcaption", note, rest))


def wave(values: NDArray[np.float64], label: str) -> Markup:
    """Return numbers as a curve, of shape (samples,) or (samples, channels)."""
    channels = values.reshape(len(values), -1).T[:_CHANNELS]
    high = np.nanmax(np.where(np.isfinite(channels), np.abs(channels), 0), initial=0.0) or 1.0
    paths = [
        tag("path", d=_outline(channel / high), class_=f"wave{number}")
        for number, channel in enumerate(channels)
    ]
    middle = tag("line", x1=0, x2=_COLUMNS, y1=_HEIGHT / 2, y2=_HEIGHT / 2)
    return tag(
        "svg",
        tag("title", label),
        middle,
        *paths,
        viewBox=f"0 0 {_COLUMNS} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        class_="wave",
    )


def _outline(values: NDArray[np.float64]) -> str:
    """Return the path of a curve in [-1, 1], broken where a value is not finite.

    Of many values it has the least and the greatest of each column.
    """
    count = len(values)
    if count <= _COLUMNS:
        xs = (np.arange(count) + 0.5) * _COLUMNS / max(count, 1)
        return _path(xs, values)
    starts = np.arange(_COLUMNS) * count // _COLUMNS
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    xs = np.repeat(np.arange(_COLUMNS) + 0.5, 2)
    return _path(xs, np.stack([low, high], axis=1).reshape(-1))


def _path(xs: NDArray[np.float64], values: NDArray[np.float64]) -> str:
    words, pen = [], "M"
    ys = (1 - values) * _HEIGHT / 2
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if not np.isfinite(y):
            pen = "M"
            continue
        words.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    return "".join(words)


_MAPS = 6
_ROWS = 64
_HEAT_HEIGHT, _HEAT_WIDTH = 80, 320
_LINES = 8
_IN_LINE = 16


def heat_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return vectors as heat maps.

    One over all sequences where each has one vector; else one for each of the first sequences,
    time from left to right.
    """
    if minibatch[key].info.is_single:
        head = first_rows(minibatch, _ROWS)
        values = as_floats(head[key].values)
        drawn = [
            image(heat(values, _ROWS, _HEAT_WIDTH), "a row for every sequence", class_="heat")
        ]
        rest = and_more(len(values), minibatch.num_sequences, "sequences")
        axes = "A row is a sequence, a column an element"
    else:
        head = first_rows(minibatch, _MAPS)
        values = as_floats(_sampled(head[key].values))
        sequences = zip(head[key].as_sequences()[:_MAPS], short_ids(head), strict=False)
        drawn = [_over_time(one, name) for one, name in sequences if len(one)]
        rest = and_more(len(drawn), minibatch.num_sequences, "sequences")
        drawn = [tag("div", *drawn, class_="tiles waves")]
        axes = "Time goes from left to right, elements from bottom to top"
    note = f"{axes}. Dark is low, bright is high; {spread_of(values)}. "
    return tag("figure", *drawn, tag("figcaption", note, rest))


def _over_time(vectors: NDArray[Any], name: str) -> Markup:
    values = as_floats(_sampled(vectors)).T[::-1]
    drawn = image(heat(values, _HEAT_HEIGHT, _HEAT_WIDTH), name, class_="heat")
    return captioned(drawn, name, f"{in_count(len(vectors))} samples", "wave")


def _sampled(values: NDArray[Any]) -> NDArray[Any]:
    """Return samples at equal distances, to draw many of them quickly."""
    return values[:: max(1, len(values) // (8 * _HEAT_WIDTH))]


def lines_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return the first samples as lines of their first numbers."""
    head = first_rows(minibatch, _LINES)
    data = head[key]
    names = ids_of_samples(head, key, _LINES)
    rows = []
    for one, name in zip(data.values[:_LINES], names, strict=True):
        flat = np.asarray(one).reshape(-1)
        shown = [tag("td", in_number(number)) for number in flat[:_IN_LINE]]
        more = tag("td", "…") if flat.size > _IN_LINE else None
        rows.append(tag("tr", tag("th", tag("code", name), scope="row"), *shown, more))
    rest = and_more(len(rows), minibatch[key].num_samples, "samples")
    note = f"Numbers {spread_of(_sampled(data.values))}. "
    table = tag("div", tag("table", tag("tbody", *rows)), class_="wide", tabindex=0)
    return tag("figure", table, tag("figcaption", note, rest))


_SAMPLES = 12
_PAIRS = 16


def sparse_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return the columns and values of the first samples."""
    head = first_rows(minibatch, _SAMPLES)
    data = head[key]
    matrix = data.values
    rows = []
    for number, name in enumerate(ids_of_samples(head, key, _SAMPLES)):
        begin, end = matrix.indptr[number : number + 2].tolist()
        columns, values = matrix.indices[begin:end], matrix.data[begin:end]
        pairs = [
            joined([tag("code", column), f" {in_number(value)}"])
            for column, value in zip(columns[:_PAIRS].tolist(), values[:_PAIRS], strict=True)
        ]
        more = f" … {in_count(end - begin)} in all" if end - begin > _PAIRS else ""
        rows.append(
            tag(
                "tr",
                tag("th", tag("code", name), scope="row"),
                tag("td", joined(pairs, ", "), more, class_="words"),
            )
        )
    stored = matrix.nnz / max(matrix.shape[0], 1)
    rest = and_more(len(rows), minibatch[key].num_samples, "samples")
    caption = f"{stored:.3g} of {in_count(matrix.shape[1])} columns are stored on average. "
    table = wide_table(("sequence", "column and value"), rows)
    return tag("figure", table, tag("figcaption", caption, rest))


ImageOps: Any = OptionalModule("PIL.ImageOps", extra="image")
soundfile: Any = OptionalModule("soundfile", extra="audio")

_OBJECTS = 12
_TEXT = 600  # characters
_HEX = 32  # bytes
_PIXELS = 64_000_000  # of a picture that is decoded
_SOUND_SECONDS = 60
_SOUND_SAMPLES = 6_000_000
_PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"BM")
_SOUNDS = (b"fLaC", b"OggS", b"ID3")


def objects_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return the first samples of a stream of bytes or objects."""
    head = first_rows(minibatch, _OBJECTS)
    data = head[key]
    names = ids_of_samples(head, key, _OBJECTS)
    shown = [
        tile_of(one, name) for one, name in zip(data.values[:_OBJECTS], names, strict=True)
    ]
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
