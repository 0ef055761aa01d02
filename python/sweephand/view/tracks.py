"""Tokens of the first rows: text, ids, labels and masks in lines beneath each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweephand.view.bars import Bar, bars_of, colours_of
from sweephand.view.decoder import Decoder
from sweephand.view.figures import and_more, first_rows, in_count, in_number
from sweephand.view.markup import Markup, joined, prose, tag
from sweephand.view.names import corpora_of, short, short_ids

if TYPE_CHECKING:
    from sweephand.minibatch.minibatch_data import MinibatchData
    from sweephand.view.viewed import ViewedMinibatch

_ROWS = 6
_FIRST, _LAST = 48, 12  # cells of a row
_TRACKS = 6
_TEXT = 600  # characters
_WORD = 24  # characters of a token
_IGNORED = -100
_VISIBLE = str.maketrans({" ": "·", "\n": "↵", "\t": "⇥", "\r": "␍"})


@dataclass(frozen=True)
class _Track:
    """One line beneath each token.

    Attributes
    ----------
    name : str
    rows : list of ndarray
        Its numbers, of the rows that are shown.
    decoder : Decoder or None
    is_label : bool
        Labels, of which some are ignored.
    """

    name: str
    rows: list[NDArray[Any]]
    decoder: Decoder | None = None
    is_label: bool = False

    @property
    def is_mask(self) -> bool:
        """True if its zeros leave tokens out of the loss."""
        return self.name.endswith("mask")

    def cells(self, row: int, columns: Sequence[int]) -> list[Markup]:
        """Return the text of cells of a row."""
        numbers = self.rows[row][columns].tolist()
        texts = self.decoder.each(numbers) if self.decoder and not self.is_label else None
        shown = []
        for place, number in enumerate(numbers):
            ignored = self.is_label and number == _IGNORED
            value = "-" if ignored else in_number(number)
            if self.is_label and self.decoder and not ignored:
                value = _visible(self.decoder.each([number])[0]) or value
            word = tag("b", _visible(texts[place]) or " ") if texts else None
            shown.append(joined([word, tag("i", value)]))
        return shown


def tracks_figure(
    minibatch: ViewedMinibatch, keys: Sequence[Any], decoders: dict[str, Decoder]
) -> Markup:
    """Return the first rows of streams of integers that are equally long.

    The first one is shown as tokens, the others beneath it; with its labels, the next tokens,
    if none of them is called "labels".
    """
    head = first_rows(minibatch, _ROWS)
    bars = bars_of(head) if _is_sized(head, keys[0]) else None
    tracks = [_track(head[key], decoders) for key in keys[:_TRACKS]]
    main, decoder = head[keys[0]], decoders.get(minibatch[keys[0]].info.name)
    is_labelled = any(track.is_label for track in tracks)
    if main.info.dtype.kind in "iu" and not is_labelled:
        labels = _rows_of(main, main.labels(_IGNORED))
        tracks.append(_Track("label", labels, decoder, is_label=True))
    masks = _masks(main)[:_ROWS]
    ids, colours = short_ids(head), colours_of(head.corpora, list(corpora_of(minibatch)))
    shown = []
    for row, mask in enumerate(masks):
        its = [bar for bar in bars or [] if bar.row == row]
        whose = [ids[bar.sequence] for bar in its] if bars is not None else [ids[row]]
        shown.append(
            tag(
                "div",
                _heading(row, whose, mask),
                _cells(row, mask, tracks, its, ids, colours),
                _whole_text(decoder, tracks[0].rows[row], mask, its, colours),
                class_="row",
            )
        )
    notes = [
        and_more(len(masks), _num_rows(minibatch[keys[0]]), "rows"),
        and_more(_TRACKS, len(keys), "streams beside them"),
        decoder.failure if decoder else None,
    ]
    caption = joined(notes, between="; ")
    return tag(
        "figure",
        *shown or [tag("p", "no sequences")],
        tag("figcaption", caption) if caption else None,
    )


def _visible(word: str) -> str:
    return short(word, _WORD).translate(_VISIBLE)


def _is_sized(minibatch: ViewedMinibatch, key: Any) -> bool:
    """Return True if a stream has the samples that the bars count."""
    if minibatch.layout.has_rows:
        return minibatch[key].is_padded
    sizes = minibatch.planned.sizes()
    return bool(np.array_equal(minibatch[key].lengths, sizes))


def _num_rows(data: MinibatchData) -> int:
    return len(data.mask) if data.is_padded else data.num_sequences


def _rows_of(data: MinibatchData, values: NDArray[Any]) -> list[NDArray[Any]]:
    """Return each row of values, or of the cells of a dense array."""
    if data.is_padded:
        return list(values)
    offsets = data.offsets.tolist()
    return [values[begin:end] for begin, end in pairwise(offsets)]


def _track(data: MinibatchData, decoders: dict[str, Decoder]) -> _Track:
    values = data.asarray() if data.is_padded else data.values
    name = data.info.name
    is_label = name in ("labels", "label")
    return _Track(name, _rows_of(data, values), decoders.get(name), is_label)


def _masks(data: MinibatchData) -> list[NDArray[np.bool_]]:
    """Return for each row which of its cells hold data."""
    if data.is_padded:
        return list(data.valid_mask())
    return [np.ones(length, np.bool_) for length in data.lengths.tolist()]


def _heading(row: int, ids: list[str], mask: NDArray[np.bool_]) -> Markup:
    valid = int(mask.sum())
    size = (
        in_count(valid) if valid == mask.size else f"{in_count(valid)} of {in_count(mask.size)}"
    )
    more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
    whose = ", ".join(ids[:3]) + more
    return tag("h3", f"row {row}: {size} cells, ", tag("code", whose or "empty"))


def _cells(
    row: int,
    mask: NDArray[np.bool_],
    tracks: list[_Track],
    bars: list[Bar],
    ids: list[str],
    colours: list[int],
) -> Markup:
    width, begins = mask.size, [bar.begin for bar in bars]
    columns = list(range(min(width, _FIRST + _LAST)))
    if width > len(columns):
        columns[_FIRST:] = range(width - _LAST, width)
    words = [track.cells(row, columns) for track in tracks]
    names = [tag("span", short(track.name, _WORD)) for track in tracks]
    shown = [tag("div", *names, class_="names", aria_hidden="true")]
    gap: list[int] = []
    for place, column in enumerate(columns):
        is_jump = place > 0 and column != columns[place - 1] + 1
        if gap and (mask[column] or is_jump):
            shown.append(_gap(gap))
            gap = []
        if is_jump:
            shown.append(tag("div", f"… {in_count(width - len(columns))} …", class_="left-out"))
        if not mask[column]:
            gap.append(column)
            continue
        bar = bars[bisect_right(begins, column) - 1] if bars else None
        title = f"{short(tracks[0].name)}, cell {column}"
        if bar is not None:
            title += f", position {bar.first + column - bar.begin} of {ids[bar.sequence]}"
        colour = colours[bar.sequence if bar else row]
        is_start = column == (bar.begin if bar else 0)
        lines = [tag("span", part[place]) for part in words]
        is_off = any(track.is_mask and not track.rows[row][column] for track in tracks)
        kind = f"cell c{colour}" + " start" * is_start + " off" * is_off
        shown.append(tag("div", *lines, class_=kind, title=title))
    if gap:
        shown.append(_gap(gap))
    return tag("div", *shown, class_="cells", tabindex=0, role="group", aria_label="cells")


def _gap(columns: list[int]) -> Markup:
    title = f"cells {columns[0]} to {columns[-1] + 1} hold no data"
    return tag("div", f"{len(columns)} empty", class_="gap", title=title)


def _whole_text(
    decoder: Decoder | None,
    numbers: NDArray[Any],
    mask: NDArray[np.bool_],
    bars: list[Bar],
    colours: list[int],
) -> Markup | None:
    """Return the decoded text of a row, each sequence in its colour."""
    if decoder is None or not mask.any():
        return None
    room, parts = _TEXT, []
    for begin, end, colour in _spans(mask, bars, colours):
        if room <= 0:
            break
        whole = decoder.whole(numbers[begin : min(end, begin + room)].tolist())
        cut = "…" if len(whole) > room or end - begin > room else ""
        parts.append(tag("bdi", prose(whole[:room] + cut), class_=f"word c{colour}"))
        room -= end - begin
    return tag("p", joined(parts, " "), class_="text")


def _spans(
    mask: NDArray[np.bool_], bars: list[Bar], colours: list[int]
) -> list[tuple[int, int, int]]:
    """Return the cells of each sequence of a row, and its colour."""
    if bars:
        return [(bar.begin, bar.end, colours[bar.sequence]) for bar in bars]
    valid = np.flatnonzero(mask)
    return [(int(valid[0]), int(valid[-1]) + 1, 0)]
