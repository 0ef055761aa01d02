"""Text of token ids."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch, MinibatchData, StreamInfo
from sweephand.ext.view.page import (
    Markup,
    and_more,
    corpora_of,
    figure,
    first_rows,
    in_count,
    in_number,
    joined,
    prose,
    short,
    short_ids,
    tag,
)
from sweephand.extend import _core, shown

# Streams of integers beside tokens that are no tokens.
_MARKS = ("mask", "part", "parts", "position_ids", "segment_ids", "domain_ids")


class Decoder:
    """Text of token ids, by a function, a tokenizer or a vocabulary.

    A function is called with a list of ids, or with one id where it refuses a list, and returns
    text or UTF-8 bytes. Its first error is in `failure`.
    """

    def __init__(self, decode: object) -> None:
        self.failure: str | None = None
        self._takes_lists: bool | None = None
        self._texts: dict[int, str] = {}
        self._call: Callable[[Any], object]
        method = None if isinstance(decode, type) else getattr(decode, "decode", None)
        if callable(method):
            self._call = _with_special_tokens(method)
        elif callable(decode):
            self._call = decode
        elif isinstance(decode, Mapping | Sequence) and not isinstance(decode, str | bytes):
            self._call, self._takes_lists = decode.__getitem__, False
        else:
            raise TypeError(
                "decode is a function of a list of ids, a tokenizer with a method decode, or "
                f"a dict or list of texts by id, got {shown(decode)}"
            )

    def each(self, ids: Sequence[int]) -> list[str]:
        """Return the text of every id by itself; "" where there is none."""
        for number in ids:
            if number not in self._texts:
                self._texts[number] = self._text([number])
        return [self._texts[number] for number in ids]

    def whole(self, ids: Sequence[int]) -> str:
        """Return the text of consecutive ids."""
        self.each(ids[:1])  # which finds out how it is called
        return self._text(list(ids)) if self._takes_lists else "".join(self.each(ids))

    def _text(self, ids: list[int]) -> str:
        ways = [True, False] if self._takes_lists is None else [self._takes_lists]
        for takes_lists in ways:
            try:
                found = _as_text(self._call(ids if takes_lists else ids[0]))
            except Exception as error:  # of the user's function, of any kind
                reason = f"{type(error).__name__}: {error}"
            else:
                self._takes_lists = takes_lists
                return found
        self.failure = self.failure or f"decode has failed for {ids[0]}: {reason:.200}"
        return ""


def decoders_of(decode: object, streams: Sequence[StreamInfo]) -> dict[str, Decoder]:
    """Return the decoder of each stream that has a decoder, of one for all or a dict by stream.

    TypeError if it cannot decode; ValueError if it names a stream that is not there, or that
    holds no integers.
    """
    if decode is None:
        return {}
    integers = [info.name for info in streams if info.dtype.kind in "iu" and not info.shape]
    if isinstance(decode, Mapping) and any(isinstance(key, str) for key in decode):
        if unknown := [key for key in decode if key not in integers]:
            there = ", ".join(integers) or "none"
            raise ValueError(
                f"decode names {unknown[0]!r}; the streams of whole numbers are: {there}"
            )
        return {name: Decoder(one) for name, one in decode.items()}
    singles = {info.name for info in streams if info.is_single}
    tokens = [name for name in integers if name not in singles and not name.endswith(_MARKS)]
    decoder = Decoder(decode)
    return dict.fromkeys(tokens, decoder)


def _with_special_tokens(method: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return the method of a tokenizer that shows special tokens, which are borders."""
    try:
        names = signature(method).parameters
    except (TypeError, ValueError):  # of a method without a signature
        return method
    if "skip_special_tokens" not in names:
        return method
    return partial(method, skip_special_tokens=False)


def _as_text(found: object) -> str:
    if isinstance(found, bytes | bytearray):
        return found.decode("utf-8", "replace")
    if isinstance(found, str):
        return found
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str):
        return found[0]  # as convert_ids_to_tokens does
    raise TypeError(f"decode must return text, got {shown(found)}")


_BAR_ROWS = 24
_BARS = 400  # in all rows
_COLOURS = 8


@dataclass(frozen=True)
class Bar:
    """A sequence, or a piece of a sequence, in its row."""

    row: int
    begin: int  # cells
    end: int
    sequence: int  # its place among those of the share
    first: int  # sample of its sequence
    whole: int  # samples of its sequence

    @property
    def goes_on(self) -> bool:
        """True if its sequence has more samples after it."""
        return self.first + self.end - self.begin < self.whole


def bars_of(minibatch: Minibatch, width: int) -> list[Bar]:
    """Return the bars of a minibatch, or of its first rows, in rows of that many cells."""
    planned = minibatch.planned
    sizes = planned.sizes().tolist()
    if minibatch.layout.has_rows:
        cells = zip(*planned.cells().reshape(-1, 4).T.tolist(), sizes, strict=True)
        return [
            Bar(row, begin, begin + size, place, first, whole)
            for place, (row, begin, first, whole, size) in enumerate(cells)
        ]
    is_left = minibatch.layout.assemble_options.pad_left
    return [
        Bar(place, begin := (width - size) * is_left, begin + size, place, 0, size)
        for place, size in enumerate(sizes)
    ]


def width_of(minibatch: Minibatch) -> int:
    """Return the cells of a row."""
    if not minibatch.layout.fits_in_order:
        return minibatch.planned.row_length
    most = int(minibatch.planned.sizes().max(initial=0))
    multiple = minibatch.layout.assemble_options.multiple_of
    return -(-most // multiple) * multiple


def colours_of(corpora: list[str], names: list[str]) -> list[int]:
    """Return the colour of each sequence: of its corpus, or by place if there is one corpus."""
    if len(names) < 2:
        return [place % _COLOURS for place in range(len(corpora))]
    numbers = {name: number % _COLOURS for number, name in enumerate(names)}
    return [numbers.get(name, 0) for name in corpora]


def shape_figure(minibatch: Minibatch) -> Markup | None:
    """Return the bars of the first rows; None where every sequence has one sample."""
    width = width_of(minibatch)
    has_gaps = minibatch.layout.form is not _core.engine.Form.RAGGED
    if not width or (width == 1 and not has_gaps):
        return None
    samples = corpora_of(minibatch)
    names = list(samples)
    head = first_rows(minibatch, _BAR_ROWS)
    ids, bars = short_ids(head), bars_of(head, width)
    colours = colours_of(head.corpora, names)
    rows: dict[int, list[Bar]] = {row: [] for row in range(head.num_rows)}
    for bar in bars[:_BARS]:
        rows[bar.row].append(bar)
    lines = [_line(row, its, width, ids, colours, has_gaps) for row, its in rows.items()]
    notes = [
        and_more(head.num_rows, minibatch.num_rows, "rows"),
        and_more(_BARS, len(bars), "pieces in these rows"),
        "Hatched cells hold no data." if has_gaps else None,
        "◂ goes on from the minibatch before, ▸ goes on in the next one."
        if any(bar.first or bar.goes_on for bar in bars)
        else None,
    ]
    cells = f"A row has {in_count(width)} cells. " if has_gaps else None
    caption = tag("figcaption", cells, joined(notes, between="; "))
    return tag("figure", tag("div", *lines, class_="bars"), _legend(samples), caption)


def _line(
    row: int, bars: list[Bar], width: int, ids: list[str], colours: list[int], has_gaps: bool
) -> Markup:
    filled = sum(bar.end - bar.begin for bar in bars)
    label = f"row {row}: {filled} of {width} cells, {len(bars)} sequences"
    drawn = [_bar(bar, width, ids[bar.sequence], colours[bar.sequence]) for bar in bars]
    svg = tag("svg", *drawn, role="img", aria_label=label, class_="gaps" if has_gaps else None)
    return tag("div", tag("span", row, class_="number"), svg, class_="line")


def _bar(bar: Bar, width: int, name: str, colour: int) -> Markup:
    size = bar.end - bar.begin
    of = f" of {in_count(bar.whole)}, from {in_count(bar.first)}" if size < bar.whole else ""
    title = f"{name}: {in_count(size)} samples{of}; cells {bar.begin} to {bar.end}"
    marks = ("◂ " if bar.first else "", " ▸" if bar.goes_on else "")
    share = size / width
    return tag(
        "svg",
        tag("title", title),
        tag("rect", width="100%", height="100%", class_=f"c{colour}"),
        tag("text", marks[0], name, marks[1], x=4, y=15) if share > 0.04 else None,
        x=f"{100 * bar.begin / width:.3f}%",
        width=f"{100 * share:.3f}%",
    )


def _legend(samples: dict[str, int]) -> Markup | None:
    """Return the colours of several corpora with their samples."""
    if len(samples) < 2:
        return None
    shown = [
        tag(
            "li",
            tag("i", class_=f"key c{number % _COLOURS}"),
            f"{short(name) or '(no file)'}: {in_count(count)} samples",
        )
        for number, (name, count) in enumerate(list(samples.items())[: 2 * _COLOURS])
    ]
    rest = and_more(len(shown), len(samples), "corpora or files")
    return tag("ul", *shown, tag("li", rest) if rest else None, class_="legend")


_ROWS = 6
_FIRST, _LAST = 48, 12  # cells of a row
_TRACKS = 6
_TEXT = 600  # characters
_WORD = 24  # characters of a token
_IGNORED = -100
_START = 2  # in the mask of a stream
_VISIBLE = str.maketrans({" ": "·", "\n": "↵", "\t": "⇥", "\r": "␍"})


@dataclass(frozen=True)
class _Track:
    """One line beneath each token: its numbers, of the rows that are shown."""

    name: str
    rows: list[NDArray[Any]]
    decoder: Decoder | None = None
    is_label: bool = False  # of which some are ignored

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
    minibatch: Minibatch, keys: Sequence[Any], decoders: dict[str, Decoder]
) -> Markup:
    """Return the first rows of streams of integers that are equally long.

    The first one is shown as tokens, the others beneath it; with its labels, the next tokens,
    if none of them is called "labels".
    """
    head = first_rows(minibatch, _ROWS)
    bars = bars_of(head, width_of(minibatch)) if _is_sized(head, keys[0]) else None
    # The first rows of a padded minibatch by themselves may be narrower than the whole.
    wide = minibatch if minibatch[keys[0]].is_padded else head
    tracks = [_track(wide[key], decoders) for key in keys[:_TRACKS]]
    main, decoder = wide[keys[0]], decoders.get(minibatch[keys[0]].info.name)
    num_rows = len(main.mask) if main.is_padded else minibatch[keys[0]].num_sequences
    is_labelled = any(track.is_label for track in tracks)
    if main.info.dtype.kind in "iu" and not is_labelled:
        labels = _rows_of(main, main.labels(_IGNORED))
        tracks.append(_Track("label", labels, decoder, is_label=True))
    parts = next(
        (one for one in wide.values() if one.info.name == main.info.definition.parts), None
    )
    marks = _marks(main, parts)
    is_trained = _trained(main, is_labelled)
    ids, colours = short_ids(head), colours_of(head.corpora, list(corpora_of(minibatch)))
    shown = []
    for row, (mask, trained) in enumerate(zip(marks, is_trained, strict=False)):
        its = [bar for bar in bars or [] if bar.row == row]
        whose = [ids[bar.sequence] for bar in its] if bars is not None else [ids[row]]
        shown.append(
            tag(
                "div",
                _heading(row, whose, mask),
                _cells(row, mask, trained, tracks, its, ids, colours),
                _whole_text(decoder, tracks[0].rows[row], mask, trained, its, colours),
                class_="row",
            )
        )
    notes = [
        "Struck out: no loss." if main.info.is_masked else None,
        and_more(len(marks), num_rows, "rows"),
        and_more(_TRACKS, len(keys), "streams beside them"),
        decoder.failure if decoder else None,
    ]
    return figure(*shown or [tag("p", "no sequences")], caption=joined(notes, between="; "))


def _visible(word: str) -> str:
    return short(word, _WORD).translate(_VISIBLE)


def _is_sized(minibatch: Minibatch, key: Any) -> bool:
    """Return True if a stream has the samples that the bars count."""
    if minibatch.layout.has_rows:
        return minibatch[key].is_padded
    sizes = minibatch.planned.sizes()
    return bool(np.array_equal(minibatch[key].lengths, sizes))


def _rows_of(data: MinibatchData, values: NDArray[Any]) -> list[NDArray[Any]]:
    """Return each of the first rows of values, or of the cells of a dense array."""
    if data.is_padded:
        return list(values[:_ROWS])
    offsets = data.offsets[: _ROWS + 1].tolist()
    return [values[begin:end] for begin, end in pairwise(offsets)]


def _track(data: MinibatchData, decoders: dict[str, Decoder]) -> _Track:
    values = data.asarray() if data.is_padded else data.values
    name = data.info.name
    is_label = name in ("labels", "label")
    return _Track(name, _rows_of(data, values), decoders.get(name), is_label)


def _marks(data: MinibatchData, parts: MinibatchData | None) -> list[NDArray[np.uint8]]:
    """Return for each row which of its cells hold data, and where sequences and parts begin."""
    rows = list(data.mask[:_ROWS].copy())
    if not data.is_padded:
        rows = [one[:size] for one, size in zip(rows, data.lengths.tolist(), strict=False)]
    if parts is not None:
        values = parts.asarray() if parts.is_padded else parts.values
        for row, numbers in zip(rows, _rows_of(parts, values), strict=False):
            row[1:][(numbers[1:] != numbers[:-1]) & (row[1:] != 0)] = _START
    return rows


def _trained(data: MinibatchData, is_labelled: bool) -> list[NDArray[np.bool_]]:
    """Return for each row the tokens that are labels themselves; all if no mask says it."""
    if is_labelled or not data.info.is_masked:
        shape = data.mask.shape if data.is_padded else data.num_samples
        return _rows_of(data, np.ones(shape, np.bool_))
    return _rows_of(data, data.labels(_IGNORED, shifted=False) != _IGNORED)


def _heading(row: int, ids: list[str], mask: NDArray[np.uint8]) -> Markup:
    valid = int(np.count_nonzero(mask))
    size = in_count(valid) + (f" of {in_count(mask.size)}" if valid < mask.size else "")
    more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
    whose = ", ".join(ids[:3]) + more
    return tag("h3", f"row {row}: {size} cells, ", tag("code", whose or "empty"))


def _cells(
    row: int,
    mask: NDArray[np.uint8],
    trained: NDArray[np.bool_],
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
    masks = [track.rows for track in tracks if track.name.endswith("mask")]
    shown = [tag("div", *map(_name, tracks), class_="names", aria_hidden="true")]
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
        is_start = bool(mask[column] == _START)
        lines = [tag("span", part[place]) for part in words]
        is_off = not trained[column] or not all(rows[row][column] for rows in masks)
        kind = f"cell c{colour}" + " start" * is_start + " off" * is_off
        shown.append(tag("div", *lines, class_=kind, title=title))
    if gap:
        shown.append(_gap(gap))
    return tag("div", *shown, class_="cells", tabindex=0, role="group", aria_label="cells")


def _name(track: _Track) -> Markup:
    """Return the name of a track, in as many lines as its cells have."""
    name = short(track.name, _WORD)
    has_words = track.decoder is not None and not track.is_label
    return tag(
        "span", tag("b", name) if has_words else None, tag("i", "id" if has_words else name)
    )


def _gap(columns: list[int]) -> Markup:
    title = f"cells {columns[0]} to {columns[-1] + 1} hold no data"
    return tag("div", f"{len(columns)} empty", class_="gap", title=title)


def _whole_text(
    decoder: Decoder | None,
    numbers: NDArray[Any],
    mask: NDArray[np.uint8],
    trained: NDArray[np.bool_],
    bars: list[Bar],
    colours: list[int],
) -> Markup | None:
    """Return the decoded text of a row, each part in a box of the colour of its sequence.

    Words without a loss are struck out.
    """
    if decoder is None or not mask.any():
        return None
    valid = np.flatnonzero(mask)
    # A run ends where a part begins, or where training on the tokens begins or ends.
    changes = (mask[valid] == _START) | (
        np.diff(trained[valid], prepend=trained[valid[0]]) != 0
    )
    changes[0] = True
    starts = np.flatnonzero(changes).tolist()
    begins = [bar.begin for bar in bars]
    room = _TEXT
    boxes: list[tuple[int, list[Markup]]] = []
    for first, end in pairwise([*starts, len(valid)]):
        if room <= 0:
            break
        cells = valid[first : min(end, first + room)]
        whole = decoder.whole(numbers[cells].tolist())
        words = prose(whole[:room] + "…" * (len(whole) > room or end - first > room))
        words = words if trained[cells[0]] else tag("s", words)
        if mask[cells[0]] == _START or not boxes:
            bar = bars[bisect_right(begins, cells[0]) - 1] if bars else None
            boxes.append((colours[bar.sequence] if bar else 0, [words]))
        else:
            boxes[-1][1].append(words)
        room -= end - first
    shown = [tag("bdi", *words, class_=f"word c{colour}") for colour, words in boxes]
    return tag("p", joined(shown), class_="text")
