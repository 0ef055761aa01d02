"""Sounds and other series of numbers as waves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch
from sweephand.ext.view.figures import and_more, as_floats, first_rows, in_count, spread_of
from sweephand.ext.view.markup import Markup, tag
from sweephand.ext.view.names import short_ids
from sweephand.ext.view.pictures import captioned

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
