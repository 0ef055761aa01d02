"""Pictures as files, drawn by matplotlib where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

HOW_TO_INSTALL = "figures need matplotlib: pip install 'sweephand[plot]'"

_PANEL = (5.5, 4.0)  # inches
_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>svg {{ max-width: 100%; height: auto }}</style>
{picture}
</html>
"""


def check_matplotlib() -> None:
    """Raise ImportError, saying how it is installed, if figures cannot be made."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ImportError(HOW_TO_INSTALL) from None


def new_figure(title: str, num_panels: int, columns: int = 3) -> tuple[Figure, list[Axes]]:
    """Return a figure with a title, and its panels, at most `columns` side by side.

    ImportError if matplotlib is not installed, saying how it is.
    """
    check_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(columns, num_panels)
    rows = -(-num_panels // columns)
    size = (_PANEL[0] * columns, _PANEL[1] * rows)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize="large")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[num_panels:]:
        panel.remove()
    for panel in panels[:num_panels]:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels[:num_panels]


def save(figure: Figure, path: str | Path, kind: str = "png") -> None:
    """Write a figure as PNG, or as a page of HTML that needs no other file."""
    if kind == "png":
        figure.savefig(path, format="png", dpi=120)
        return
    drawn = StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    svg = drawn.getvalue()
    page = _PAGE.format(
        title=escape(figure.get_suptitle()), picture=svg[svg.index("<svg") :].strip()
    )
    Path(path).write_text(page, encoding="utf-8")


def with_commas(*axes: Axis, integer: bool = False) -> None:
    """Write the numbers of axes as 1,000,000, and few of them; `integer`: no fractions."""
    from matplotlib.ticker import LogLocator, MaxNLocator, StrMethodFormatter

    for axis in axes:
        if axis.get_scale() == "linear":
            axis.set_major_locator(MaxNLocator(5, integer=integer, steps=[1, 2, 5, 10]))
        elif isinstance(locator := axis.get_major_locator(), LogLocator):
            locator.set_params(numticks=6)
        axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def draw_lengths(panel: Axes, lengths: NDArray[np.integer]) -> None:
    """Draw the histogram of lengths, over a logarithmic axis if they differ much."""
    least, most = int(lengths.min()), int(lengths.max())
    if most > 10 * least:
        from matplotlib.ticker import NullFormatter

        panel.set_xscale("log", base=10 if most > 100 * least else 2)
        panel.hist(lengths, bins=np.geomspace(least, most + 1, 60).tolist())
        panel.xaxis.set_minor_formatter(NullFormatter())
    else:
        panel.hist(lengths, bins=min(60, most - least + 1))
    with_commas(panel.xaxis, panel.yaxis)


def draw_counts(panel: Axes, numbers: NDArray[np.number]) -> None:
    """Draw the histogram of numbers; of one number alone a bar."""
    panel.hist(numbers, bins=40 if np.ptp(numbers) else 1)
    with_commas(panel.xaxis, panel.yaxis)


def draw_bars(panel: Axes, values: dict[str, float], notes: Sequence[str]) -> None:
    """Draw a bar to the right for every name, the first on top, with a note at its end."""
    bars = panel.barh(list(values), list(values.values()))
    panel.bar_label(bars, notes, padding=4)
    panel.invert_yaxis()
    panel.margins(x=0.4)
    with_commas(panel.xaxis)
