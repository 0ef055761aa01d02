"""A minibatch on a page: its facts, its shape, its sequences and its streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sweephand import Minibatch, StreamInfo
from sweephand.ext.view.figures import (
    heat_figure,
    objects_figure,
    pictures_figure,
    sparse_figure,
    waves_figure,
)
from sweephand.ext.view.page import (
    Markup,
    Page,
    and_more,
    class_name,
    corpora_of,
    first_rows,
    in_count,
    in_number,
    joined,
    note,
    short,
    short_ids,
    tag,
    wide_table,
)
from sweephand.ext.view.tracks import (
    Decoder,
    bars_of,
    decoders_of,
    shape_figure,
    tracks_figure,
    width_of,
)
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
    return tag("p", tag("code", data.info.form), f" · {samples} samples")


def page_of_minibatch(minibatch: Minibatch, decode: object = None) -> Page:
    """Return a page of a minibatch alone; `decode` is as `Minibatch.show` takes it."""
    title = "Minibatch" if minibatch else "Minibatch: end of data"
    return Page(title, joined([tag("h1", title), minibatch_view(minibatch, decode)]))


def minibatch_view(minibatch: Minibatch, decode: object = None) -> Markup:
    """Return the contents of a minibatch, of its first rows."""
    if not minibatch:
        return note("The end of the data: no sequence comes here.")
    decoders = decoders_of(decode, [data.info for data in minibatch.values()])
    parts: list[Markup | None] = [facts_of(minibatch)]
    if minibatch.num_sequences:
        parts += [
            shape_figure(minibatch),
            sequences_table(minibatch, decoders),
            stream_sections(minibatch, decoders),
        ]
    else:
        parts.append(note("This share is empty: no sequence is in it."))
    return joined(parts)


def facts_of(minibatch: Minibatch) -> Markup:
    """Return the figures of a minibatch."""
    samples, of_all = minibatch.num_samples, minibatch.global_num_samples
    facts: dict[str, object] = {
        "layout": tag("code", minibatch.layout.describe()),
        "nominal time": in_count(minibatch.nominal_time),
        "sequences": in_count(minibatch.num_sequences),
        "samples": in_count(samples)
        + ("" if samples == of_all else f" of {in_count(of_all)} over all workers"),
    }
    if minibatch.layout.has_rows:
        rows, length = minibatch.num_rows, minibatch.planned.row_length
        facts["rows"] = f"{in_count(rows)} of {in_count(length)} cells"
    if minibatch.bucket_key is not None:
        facts["bucket"] = f"up to {in_count(minibatch.bucket_key)} samples"
    if minibatch.fill_ratio < 1:
        facts["cells filled"] = f"{100 * minibatch.fill_ratio:.1f} %"
    if minibatch.end_of_sweep:
        facts["sweep"] = "ends here"
    shown = [tag("div", tag("dt", name), tag("dd", fact)) for name, fact in facts.items()]
    return tag("dl", *shown, class_="facts")


_SHOWN = 16
_COLUMNS = 24
_BANNED = 8


def sequences_table(
    minibatch: Minibatch,
    decoders: Mapping[str, Decoder],
) -> Markup:
    """Return the first sequences, in the order of the minibatch."""
    head = first_rows(minibatch, _SHOWN)
    names = list(corpora_of(minibatch))
    columns: dict[str, list[object]] = {"id": [tag("code", name) for name in short_ids(head)]}
    if len(names) > 1:
        columns["corpus"] = [short(name) for name in head.corpora]
    if head.layout.has_rows:
        columns["row: cells"] = [
            f"{bar.row}: {bar.begin} to {bar.end}" for bar in bars_of(head, width_of(head))
        ]
    columns["samples"] = [in_count(size) for size in head.planned.sizes().tolist()]
    keys = columns_of(minibatch)
    for key in keys[:_COLUMNS]:
        columns[short(str(key))] = _column(head, key, decoders)
    rows = [
        tag("tr", *(tag("td", one) for one in row))
        for row in zip(*(column[:_SHOWN] for column in columns.values()), strict=True)
    ]
    notes = [
        and_more(len(rows), minibatch.num_sequences, "sequences"),
        and_more(_COLUMNS, len(keys), "streams of one number"),
        _banned(minibatch),
    ]
    caption = joined(notes, "; ")
    return tag(
        "section",
        tag("header", tag("h2", "Sequences")),
        wide_table(columns, rows),
        note(caption) if caption else None,
    )


def _column(minibatch: Minibatch, key: Any, decoders: Mapping[str, Decoder]) -> list[object]:
    data = minibatch[key]
    values = data.values[:_SHOWN]
    decoder = decoders.get(data.info.name)
    if decoder is None:
        return [class_name(data.info, value) for value in values]
    texts = decoder.each(values.tolist())
    return [
        joined([in_number(value), f" {word}" if word else None])
        for value, word in zip(values, texts, strict=True)
    ]


def _banned(minibatch: Minibatch) -> str | None:
    banned = minibatch.banned_ids
    if not banned:
        return None
    shown = ", ".join(map(short, banned[:_BANNED])) + "…" * (len(banned) > _BANNED)
    return f"{in_count(len(banned))} left out by events: {shown}"
