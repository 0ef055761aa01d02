"""The streams of a minibatch, each shown by its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def is_column(info: StreamInfo) -> bool:
    """Return True for a number of each sequence, which is in the table of these."""
    return info.is_single and _is_number(info)


def _is_tokens(info: StreamInfo) -> bool:
    is_series = _is_number(info) and not info.is_single
    return is_series and info.dtype.kind in "iub" and not info.carried


def _is_number(info: StreamInfo) -> bool:
    return not (info.shape or info.is_sparse or info.is_bytes)


def _figure_of(info: StreamInfo) -> Callable[[Minibatch, Any], Markup]:
    """Return how a stream alone is shown, by the type and shape of its samples."""
    shape = info.shape
    if info.is_sparse:
        return sparse_figure
    if info.is_bytes:
        return objects_figure
    if shape and _holds_pictures(info):
        return pictures_figure
    if len(shape) > 1 or (info.is_single and shape[0] <= 8):
        return lines_figure
    is_wave = not info.is_single and (not shape or shape[0] <= 2)
    return waves_figure if is_wave else heat_figure


def _holds_pictures(info: StreamInfo) -> bool:
    shape = info.shape
    if len(shape) == 2:
        return info.dtype == np.uint8 and min(shape) > _LEAST_SIDE
    return is_picture(np.broadcast_to(0, shape)) and sorted(shape)[1] > _LEAST_SIDE


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
    return [key for key, data in minibatch.items() if is_column(data.info)]


def _groups(minibatch: Minibatch) -> list[list[Any]]:
    """Return the streams that have sections; tokens of equal lengths together."""
    groups: list[list[Any]] = []
    tokens: dict[bytes, list[Any]] = {}
    for key, data in minibatch.items():
        if _is_tokens(data.info):
            # In rows all have the lengths of the rows.
            where = (
                b"" if data.is_padded and minibatch.layout.has_rows else data.offsets.tobytes()
            )
            if where not in tokens:
                groups.append(tokens.setdefault(where, []))
            tokens[where].append(key)
        elif not is_column(data.info):
            groups.append([key])
    return groups


def _section(minibatch: Minibatch, keys: Sequence[Any], decoders: dict[str, Decoder]) -> Markup:
    info = minibatch[keys[0]].info
    titles = [joined([tag("h2", short(str(key))), _kind(minibatch, key)]) for key in keys]
    try:
        if _is_tokens(info):
            figure = tracks_figure(minibatch, keys, decoders)
        else:
            figure = _figure_of(info)(minibatch, keys[0])
    except ImportError as error:
        figure = note(error)
    return tag("section", tag("header", *titles), figure)


def _kind(minibatch: Minibatch, key: Any) -> Markup:
    data = minibatch[key]
    samples = in_count(data.num_samples)
    return tag("p", tag("code", data.info.brief.partition(": ")[2]), f" · {samples} samples")
