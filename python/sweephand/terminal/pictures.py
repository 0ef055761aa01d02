"""Pictures as PNG files, drawn by matplotlib where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOW_TO_INSTALL = "figures need matplotlib: pip install 'sweephand[plot]'"


def has_matplotlib() -> bool:
    """Return whether figures can be made."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def new_figure(num_panels: int) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, side by side.

    Raises
    ------
    ImportError
        If matplotlib is not installed, saying how it is.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(HOW_TO_INSTALL) from None
    figure = Figure(figsize=(5.5 * num_panels, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(1, num_panels, squeeze=False)[0])
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, format="png", dpi=120)


def draw_lengths(panel: Axes, lengths: NDArray[np.integer]) -> None:
    """Draw the histogram of lengths, over a logarithmic axis if they differ much."""
    least, most = int(lengths.min()), int(lengths.max())
    if most > 10 * least:
        panel.set_xscale("log")
        panel.hist(lengths, bins=np.geomspace(least, most + 1, 60).tolist())
    else:
        panel.hist(lengths, bins=60)


def draw_bars(panel: Axes, values: dict[str, float], notes: Sequence[str]) -> None:
    """Draw a bar to the right for every name, the first on top, with a note at its end."""
    bars = panel.barh(list(values), list(values.values()))
    panel.bar_label(bars, notes, padding=4)
    panel.invert_yaxis()
    panel.margins(x=0.25)
