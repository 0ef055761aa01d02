"""The shape of a minibatch: a bar in its row for every sequence or piece of a sequence."""

from __future__ import annotations

from dataclasses import dataclass

from sweephand import Minibatch
from sweephand.ext.view.markup import (
    Markup,
    and_more,
    corpora_of,
    first_rows,
    in_count,
    joined,
    short,
    short_ids,
    tag,
)
from sweephand.extend import _core

_ROWS = 24
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
    if minibatch.layout.has_fixed_width:
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
    head = first_rows(minibatch, _ROWS)
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
