"""Vectors and other numbers: a heat map, or lines of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch
from sweephand.ext.view.figures import (
    and_more,
    as_floats,
    first_rows,
    in_count,
    in_number,
    spread_of,
)
from sweephand.ext.view.markup import Markup, tag
from sweephand.ext.view.names import ids_of_samples, short_ids
from sweephand.ext.view.pictures import captioned, patches_figure
from sweephand.ext.view.png import heat, image

_MAPS = 6
_ROWS = 64
_HEIGHT, _WIDTH = 80, 320
_LINES = 8
_NUMBERS = 16


def heat_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return vectors as heat maps, or as the pictures of which they are patches.

    One over all sequences where each has one vector; else one for each of the first sequences,
    time from left to right.
    """
    if (pictures := patches_figure(minibatch, key)) is not None:
        return pictures
    if minibatch[key].info.is_single:
        head = first_rows(minibatch, _ROWS)
        values = as_floats(head[key].values)
        drawn = [image(heat(values, _ROWS, _WIDTH), "a row for every sequence", class_="heat")]
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
    drawn = image(heat(values, _HEIGHT, _WIDTH), name, class_="heat")
    return captioned(drawn, name, f"{in_count(len(vectors))} samples", "wave")


def _sampled(values: NDArray[Any]) -> NDArray[Any]:
    """Return samples at equal distances, to draw many of them quickly."""
    return values[:: max(1, len(values) // (8 * _WIDTH))]


def lines_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return the first samples as lines of their first numbers."""
    head = first_rows(minibatch, _LINES)
    data = head[key]
    names = ids_of_samples(head, key, _LINES)
    rows = []
    for one, name in zip(data.values[:_LINES], names, strict=True):
        flat = np.asarray(one).reshape(-1)
        shown = [tag("td", in_number(number)) for number in flat[:_NUMBERS]]
        more = tag("td", "…") if flat.size > _NUMBERS else None
        rows.append(tag("tr", tag("th", tag("code", name), scope="row"), *shown, more))
    rest = and_more(len(rows), minibatch[key].num_samples, "samples")
    note = f"Numbers {spread_of(_sampled(data.values))}. "
    table = tag("div", tag("table", tag("tbody", *rows)), class_="wide", tabindex=0)
    return tag("figure", table, tag("figcaption", note, rest))
