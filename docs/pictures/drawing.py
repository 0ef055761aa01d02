"""What the pictures share: colours of sequences, pieces of rows."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

WASTE = "0.88"


def color(number: int) -> tuple[float, ...]:
    """Return the colour of a sequence or chunk."""
    without_greys = [*range(14), *range(16, 20)]
    red, green, blue, _ = plt.get_cmap("tab20")(without_greys[number % 18])
    return tuple(0.35 + 0.65 * part for part in (red, green, blue))  # so that text is legible


def piece(
    axis: Axes, row: float, begin: float, end: float, fill: object, text: str = ""
) -> None:
    """Draw one piece of a row."""
    axis.barh(row, end - begin, 0.7, begin, color=fill, edgecolor="white", linewidth=1.2)
    axis.text((begin + end) / 2, row, text, ha="center", va="center", fontsize=8)


def bare(axis: Axes, rows: dict[float, str]) -> None:
    """Name the rows, and leave no frame."""
    axis.set_yticks(list(rows), list(rows.values()))
    axis.tick_params(left=False)
    axis.spines[:].set_visible(False)
