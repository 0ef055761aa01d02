"""Layouts: the same sequences padded, in buckets, packed, and continued from row to row."""

from itertools import groupby

import matplotlib.pyplot as plt
import numpy as np
from drawing import WASTE, color
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import sweephand as sh

LAYOUTS = {
    "Padded()": sh.Padded(),
    "Bucketed([4, 8, 16])": sh.Bucketed([4, 8, 16]),
    "Packed(16)": sh.Packed(16),
    "TruncatedBPTT(4): minibatches from left to right, rows go on": sh.TruncatedBPTT(4),
}


def draw() -> Figure:
    """Draw the cells of a sweep in each layout, a colour for each sequence, grey for none."""
    lengths = np.random.default_rng(1).geometric(0.18, 30).clip(max=16)
    # Every sample says which sequence it belongs to.
    corpus = sh.ArrayDeserializer({"x": [np.full(n, i) for i, n in enumerate(lengths)]})
    figure = plt.figure(figsize=(11, 5.4), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=[5, 1])
    places = [grid[0, 0], grid[0, 1], grid[0, 2], grid[1, :]]
    for place, (name, layout) in zip(places, LAYOUTS.items(), strict=True):
        side_by_side = isinstance(layout, sh.TruncatedBPTT)
        source = sh.MinibatchSource(corpus, randomization_seed=2, layout=layout, max_sweeps=1)
        minibatches = source.minibatches(16 if side_by_side else 64)
        rows = [minibatch["x"].asarray(pad_value=-1) for minibatch in minibatches]
        _draw(figure.add_subplot(place), name, rows, side_by_side)
    return figure


def _draw(axis: Axes, name: str, minibatches: list[np.ndarray], side_by_side: bool) -> None:
    top, left = 0.0, 0.0
    for rows in minibatches:
        for number, row in enumerate(rows):
            column = left
            for sequence, cells in groupby(row.tolist()):
                width = len(list(cells))
                fill = WASTE if sequence < 0 else color(sequence)
                axis.barh(top + number + 0.5, width, 0.9, column, color=fill)
                column += width
        if side_by_side:
            left += rows.shape[1] + 0.8
        else:
            top += len(rows) + 0.8  # a gap between minibatches
    used = sum(int((rows >= 0).sum()) for rows in minibatches)
    cells = sum(rows.size for rows in minibatches)
    axis.set_title(f"{name}, {used / cells:.0%} full", fontsize=9, loc="left")
    axis.set_ylim(len(minibatches[0]) if side_by_side else top, 0)
    axis.axis("off")
