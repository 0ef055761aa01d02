"""The streams of a minibatch, each shown by its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from sweephand import Minibatch, StreamInfo
from sweephand.ext.view.decoder import Decoder
from sweephand.ext.view.figures import and_more, in_count, short
from sweephand.ext.view.markup import Markup, joined, note, tag
from sweephand.ext.view.numbers import heat_figure, lines_figure, sparse_figure, waves_figure
from sweephand.ext.view.objects import objects_figure
from sweephand.ext.view.pictures import pictures_figure
from sweephand.ext.view.tracks import tracks_figure
from sweephand.extend import is_picture

_STREAMS = 24
_ROOM = 600_000  # bytes of a page, beyond which no further stream is shown
_LEAST_SIDE = 4  # of a picture


class Content(Enum):
    """How a stream is shown."""

    COLUMN = "a column of the sequences"
    TOKENS = "tokens"
    OBJECTS = "bytes and objects"
    SPARSE = "sparse"
    PICTURES = "pictures"
    WAVES = "waves"
    HEAT = "a heat map"
    LINES = "lines of numbers"


def content_of(info: StreamInfo) -> Content:
    """Return how a stream is shown, by the type and shape of its samples."""
    if info.is_sparse:
        return Content.SPARSE
    if info.is_bytes:
        return Content.OBJECTS
    shape, kind = info.shape, info.dtype.kind
    if not shape:
        if info.is_single:
            return Content.COLUMN
        is_tokens = kind in "iub" and not info.carried
        return Content.TOKENS if is_tokens else Content.WAVES
    if _holds_pictures(info):
        return Content.PICTURES
    if len(shape) > 1 or (info.is_single and shape[0] <= 8):
        return Content.LINES
    return Content.WAVES if shape[0] <= 2 and not info.is_single else Content.HEAT


def _holds_pictures(info: StreamInfo) -> bool:
    shape = info.shape
    if len(shape) == 2:
        return info.dtype == np.uint8 and min(shape) > _LEAST_SIDE
    return is_picture(np.broadcast_to(0, shape)) and sorted(shape)[1] > _LEAST_SIDE


_Figure = Callable[[Minibatch, Any], Markup]
_FIGURES: dict[Content, _Figure] = {
    Content.OBJECTS: objects_figure,
    Content.SPARSE: sparse_figure,
    Content.PICTURES: pictures_figure,
    Content.WAVES: waves_figure,
    Content.HEAT: heat_figure,
    Content.LINES: lines_figure,
}


def stream_sections(minibatch: Minibatch, decoders: dict[str, Decoder]) -> Markup:
    """Return a section for every stream, or for those that are shown together."""
    groups = _groups(minibatch)
    sections: list[Markup] = []
    for keys in groups[:_STREAMS]:
        if sum(map(len, sections)) > _ROOM:
            break
        sections.append(_section(minibatch, keys, decoders))
    rest = and_more(len(sections), len(groups), "streams, for which the page has no room")
    return joined([*sections, note(rest) if rest else None])


def columns_of(minibatch: Minibatch) -> list[Any]:
    """Return the keys of the streams that are a number for each sequence."""
    return [key for key, data in minibatch.items() if content_of(data.info) is Content.COLUMN]


def _groups(minibatch: Minibatch) -> list[list[Any]]:
    """Return the streams that have sections; tokens of equal lengths together."""
    groups: list[list[Any]] = []
    tokens: dict[bytes, list[Any]] = {}
    for key, data in minibatch.items():
        content = content_of(data.info)
        if content is Content.TOKENS:
            # In rows all have the lengths of the rows.
            where = (
                b"" if data.is_padded and minibatch.layout.has_rows else data.offsets.tobytes()
            )
            if where not in tokens:
                groups.append(tokens.setdefault(where, []))
            tokens[where].append(key)
        elif content is not Content.COLUMN:
            groups.append([key])
    return groups


def _section(minibatch: Minibatch, keys: Sequence[Any], decoders: dict[str, Decoder]) -> Markup:
    infos = [minibatch[key].info for key in keys]
    titles = [joined([tag("h2", short(str(key))), _kind(minibatch, key)]) for key in keys]
    content = content_of(infos[0])
    try:
        if content is Content.TOKENS:
            figure = tracks_figure(minibatch, keys, decoders)
        else:
            figure = _FIGURES[content](minibatch, keys[0])
    except ImportError as error:
        figure = note(error)
    return tag("section", tag("header", *titles), figure)


def _kind(minibatch: Minibatch, key: Any) -> Markup:
    data = minibatch[key]
    samples = in_count(data.num_samples)
    return tag("p", tag("code", data.info.brief.partition(": ")[2]), f" · {samples} samples")
