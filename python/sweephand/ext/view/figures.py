"""Pictures as thumbnails, heat maps, and the PNG of both."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from codecs import getincrementaldecoder
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch
from sweephand.ext.view.page import (
    Markup,
    and_more,
    as_floats,
    class_name,
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
from sweephand.extend import OptionalModule, open_picture

_KINDS = {1: 0, 3: 2, 4: 6}  # channels to PNG's kind of colour
# Colours of a heat map from low to high, at equal distances.
_RAMP = np.array(
    [[35, 30, 70], [40, 85, 140], [30, 150, 140], [130, 200, 90], [250, 230, 60]], np.float64
)


def image(picture: NDArray[np.uint8], alt: str, **attributes: Any) -> Markup:
    """Return an element that shows a picture of shape (height, width, 1, 3 or 4 channels)."""
    data = base64.b64encode(encode(picture)).decode()
    height, width = picture.shape[:2]
    source = f"data:image/png;base64,{data}"
    return tag("img", src=source, alt=alt, width=width, height=height, **attributes)


def encode(picture: NDArray[np.uint8]) -> bytes:
    """Return a picture of shape (height, width, channels) as the bytes of a PNG file."""
    height, width, channels = picture.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each after its filter, 0
    lines[:, 1:] = picture.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, _KINDS[channels], 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    )


def shrunk(values: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Return an array of at most a height and a width, each element a mean over a block."""
    by_rows = _means(values, height, 0)
    return _means(by_rows, width, 1)


def _means(values: NDArray[Any], most: int, axis: int) -> NDArray[Any]:
    length = values.shape[axis]
    if length <= most:
        return values
    starts = np.arange(most) * length // most
    counts = np.diff(np.append(starts, length))
    sums = np.add.reduceat(values.astype(np.float64), starts, axis=axis)
    shape = [1] * values.ndim
    shape[axis] = most
    return sums / counts.reshape(shape)


def heat(values: NDArray[np.float64], height: int, width: int) -> NDArray[np.uint8]:
    """Return numbers of shape (rows, columns) as a picture, from dark (low) to bright (high).

    Numbers that are not finite are red.
    """
    finite = np.isfinite(values)
    low = values[finite].min(initial=np.inf)
    high = values[finite].max(initial=-np.inf)
    span = high - low if high > low else 1.0
    small = shrunk(np.where(finite, values, np.nan), height, width)
    is_odd = ~np.isfinite(small)
    place = np.where(is_odd, 0.0, (small - low) / span).clip(0, 1) * (len(_RAMP) - 1)
    below = place.astype(np.int64).clip(0, len(_RAMP) - 2)
    part = (place - below)[..., None]
    colours = _RAMP[below] * (1 - part) + _RAMP[below + 1] * part
    colours[is_odd] = (220, 40, 40)
    pixels: NDArray[np.uint8] = colours.round().astype(np.uint8)
    return pixels


SIDE = 80  # pixels of a thumbnail, at most
_THUMBNAILS = 12
_LABELS = 3
_COLOURS = (1, 3, 4)


def pictures_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return the first pictures of a stream, with the numbers of their sequences."""
    head = first_rows(minibatch, _THUMBNAILS)
    whole = [_channels_last(one) for one in head[key].values[:_THUMBNAILS]]
    whose = np.repeat(np.arange(head.num_sequences), head[key].lengths)[:_THUMBNAILS].tolist()
    pictures = [_reduced(one) for one in whole]
    is_bytes = all(one.dtype == np.uint8 for one in whole)
    note = None if is_bytes or not pictures else f"Scaled: {spread_of(pictures)}. "
    pixels = pictures if is_bytes else _scaled(pictures)
    ids, labels = short_ids(head), _labels(head)
    tiles = [
        captioned(
            image(_thumbnail(picture), f"{ids[place]}, {size.shape[1]} by {size.shape[0]}"),
            ids[place],
            labels[place],
        )
        for picture, size, place in zip(pixels, whole, whose, strict=True)
    ]
    rest = and_more(len(tiles), minibatch[key].num_samples, "pictures")
    return figure(tag("div", *tiles, class_="tiles pictures"), caption=joined([note, rest]))


def captioned(shown: Markup, name: str, note: str, class_: str = "tile") -> Markup:
    """Return a figure of one sample with its id and a note."""
    words = joined([tag("code", name), tag("small", note) if note else None])
    return tag("figure", shown, tag("figcaption", words), class_=class_)


def _channels_last(picture: NDArray[Any]) -> NDArray[Any]:
    if picture.ndim == 2:
        return picture[..., None]
    return picture if picture.shape[-1] in _COLOURS else np.moveaxis(picture, 0, -1)


def _reduced(picture: NDArray[Any]) -> NDArray[Any]:
    """Return a large picture reduced to pixels at equal distances."""
    step = max(1, max(picture.shape[:2]) // (4 * SIDE))
    return picture[::step, ::step]


def _scaled(pictures: list[NDArray[Any]]) -> list[NDArray[np.uint8]]:
    """Return pictures of any numbers as bytes, by the least and the greatest of all."""
    floats = [np.nan_to_num(as_floats(one), posinf=0, neginf=0) for one in pictures]
    low = min((one.min(initial=np.inf) for one in floats), default=0)
    high = max((one.max(initial=-np.inf) for one in floats), default=0)
    span = high - low or 1.0
    return [((one - low) / span * 255).round().astype(np.uint8) for one in floats]


def _thumbnail(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = picture.shape[:2]
    scale = min(1.0, SIDE / max(height, width))
    small = shrunk(picture, max(1, round(height * scale)), max(1, round(width * scale)))
    return np.ascontiguousarray(small.round().astype(np.uint8))


def _labels(minibatch: Minibatch) -> list[str]:
    """Return the numbers that each sequence has beside its picture."""
    columns = {
        data.info: data.values
        for data in minibatch.values()
        if data.info.is_single and not data.info.shape and not data.info.is_variable
    }
    return [
        ", ".join(
            f"{info.name} {class_name(info, values[place])}"
            for info, values in list(columns.items())[:_LABELS]
        )
        for place in range(minibatch.num_sequences)
    ]


_WAVES = 8
_COLUMNS = 400
_HEIGHT = 48
_CHANNELS = 2


def waves_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return the first sequences of a stream of numbers; in rows its first rows."""
    head = first_rows(minibatch, _WAVES)
    data = head[key]
    shown = [
        captioned(wave(as_floats(one), name), name, f"{in_count(len(one))} samples", "wave")
        for one, name in zip(data.as_sequences()[:_WAVES], short_ids(head), strict=False)
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


def heat_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return vectors as heat maps.

    One over all sequences where each has one vector; else one for each of the first sequences,
    time from left to right.
    """
    if minibatch[key].info.is_single:
        head = first_rows(minibatch, _ROWS)
        values = as_floats(head[key].values).reshape(head.num_sequences, -1)
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
    values = as_floats(_sampled(vectors)).reshape(-1, vectors[0].size).T[::-1]
    drawn = image(heat(values, _HEAT_HEIGHT, _HEAT_WIDTH), name, class_="heat")
    return captioned(drawn, name, f"{in_count(len(vectors))} samples", "wave")


def _sampled(values: NDArray[Any]) -> NDArray[Any]:
    """Return samples at equal distances, to draw many of them quickly."""
    return values[:: max(1, len(values) // (8 * _HEAT_WIDTH))]


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
        kept = slice(begin, min(end, begin + _PAIRS))
        pairs = [
            joined([tag("code", column), f" {in_number(value)}"])
            for column, value in zip(matrix.indices[kept], matrix.data[kept], strict=True)
        ]
        more = f" … {in_count(end - begin)} in all" if end - begin > _PAIRS else ""
        words = tag("td", joined(pairs, ", "), more, class_="words")
        rows.append(tag("tr", tag("th", tag("code", name), scope="row"), words))
    stored = matrix.nnz / max(matrix.shape[0], 1)
    rest = and_more(len(rows), minibatch[key].num_samples, "samples")
    caption = f"{stored:.3g} of {in_count(matrix.shape[1])} columns are stored on average. "
    table = wide_table(("sequence", "column and value"), rows)
    return tag("figure", table, tag("figcaption", caption, rest))


ImageOps: Any = OptionalModule("PIL.ImageOps", extra="image")

_OBJECTS = 12
_TEXT = 600  # characters
_HEX = 32  # bytes
_PIXELS = 64_000_000  # of a picture that is decoded
_PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"BM")


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
        as_json = json.JSONEncoder(ensure_ascii=False, indent=1, default=repr)
        text = (
            found
            if isinstance(found, str)
            else "".join(islice(as_json.iterencode(found), _TEXT))
        )
        return _prose(text, name)
    size = f"{in_count(len(found))} bytes"
    try:
        if found.startswith(_PICTURES) or found[8:12] == b"WEBP":
            return captioned(_stored_picture(found, name), name, size)
    except ImportError as error:
        return captioned(note(error), name, size)
    except Exception as error:  # damaged bytes make the decoders raise a dozen kinds
        reason = f"cannot be decoded: {type(error).__name__}: {error}"
        return captioned(note(reason[:_TEXT]), name, _hex(found))
    try:
        head, is_whole = found[: 4 * _TEXT], len(found) <= 4 * _TEXT
        return _prose(getincrementaldecoder("utf-8")().decode(head, final=is_whole), name)
    except UnicodeDecodeError:
        return captioned(tag("code", _hex(found), class_="hex"), name, size)


def _prose(found: str, name: str) -> Markup:
    cut = found[:_TEXT] + ("…" if len(found) > _TEXT else "")
    return captioned(tag("bdi", prose(cut)), name, "", class_="prose")


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
