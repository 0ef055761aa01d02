"""Charts made of characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand.terminal.numbers import in_count


@dataclass(frozen=True)
class Ink:
    """The characters that a chart is drawn with.

    Attributes
    ----------
    eighths : str
        A bar's end, from nearly empty to full.
    dot : str
        A point of a curve.
    """

    eighths: str
    dot: str


ASCII_INK = Ink(eighths="#", dot="*")
BLOCK_INK = Ink(eighths="▏▎▍▌▋▊▉█", dot="•")


def bars(labels: Sequence[str], counts: Sequence[int], ink: Ink, width: int = 40) -> list[str]:
    r"""Return one bar per label, the longest of `width` characters.

    Examples
    --------
    >>> print(*bars(["a", "bc"], [10, 5], ASCII_INK, width=4), sep="\n")
     a  10 ####
    bc   5 ##
    """
    most = max([*counts, 1])
    label_width = max(map(len, labels), default=0)
    numbers = [in_count(count) for count in counts]
    number_width = max(map(len, numbers), default=0)
    return [
        f"{label:>{label_width}}  {number:>{number_width}} {_bar(count / most * width, ink)}"
        for label, number, count in zip(labels, numbers, counts, strict=True)
    ]


def _bar(length: float, ink: Ink) -> str:
    steps = len(ink.eighths)
    whole, rest = divmod(round(length * steps), steps)
    if length > 0 and whole == rest == 0:
        rest = 1  # something is not nothing
    return ink.eighths[-1] * whole + (ink.eighths[rest - 1] if rest else "")


def by_powers_of_two(sizes: ArrayLike) -> tuple[list[str], list[int]]:
    """Return labels and counts of the bins [1, 1], [2, 3], [4, 7], ... that sizes fall into.

    Examples
    --------
    >>> by_powers_of_two([4, 5, 9, 9, 10])
    (['4 - 7', '8 - 15'], [2, 3])
    """
    exponents = np.log2(np.maximum(np.asarray(sizes), 1)).astype(np.int64)
    counts = np.bincount(exponents)
    first = int(np.flatnonzero(counts)[0])
    labels = [
        "1" if e == 0 else f"{in_count(2**e)} - {in_count(2 ** (e + 1) - 1)}"
        for e in range(first, len(counts))
    ]
    return labels, counts[first:].tolist()


def curve(values: ArrayLike, ink: Ink, *, width: int = 60, height: int = 12) -> list[str]:
    r"""Return a curve over the numbers 1, 2, ... of its values, with both axes.

    Parameters
    ----------
    values : array_like of float, shape (count,)
        Where there are more than `width`, neighbours are averaged.

    Examples
    --------
    >>> print(*curve([3, 2, 1], ASCII_INK, width=9, height=3), sep="\n")
    3.00 |***
    2.00 |   ***
    1.00 |      ***
         +---------
          1       3
    """
    points = np.asarray(values, dtype=np.float64)
    heights = _resampled(points, width)
    low, high = float(heights.min()), float(heights.max())
    span = high - low or 1.0
    rows = np.rint((high - heights) / span * (height - 1)).astype(np.int64)
    lines = []
    for row in range(height):
        label = f"{high - span * row / (height - 1):.2f}"
        lines.append(
            f"{label} |" + "".join(ink.dot if r == row else " " for r in rows).rstrip()
        )
    margin = " " * lines[0].index("|")
    last = str(len(points))
    lines.append(f"{margin}+{'-' * width}")
    lines.append(f"{margin} 1{last:>{width - 1}}")
    return lines


def _resampled(points: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    if len(points) <= width:
        return points[np.arange(width) * len(points) // width]
    return np.array([part.mean() for part in np.array_split(points, width)])
