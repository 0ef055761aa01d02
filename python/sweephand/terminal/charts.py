"""Charts made of characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand.terminal.numbers import in_count


@dataclass(frozen=True)
class Ink:
    """The characters that a chart is drawn with."""

    eighths: str  # A bar's end, from nearly empty to full
    dot: str  # A point of a curve


ASCII_INK = Ink(eighths="#", dot="*")
BLOCK_INK = Ink(eighths="▏▎▍▌▋▊▉█", dot="•")


_LONGEST_BAR = 40
_WIDEST_CURVE = 60


def bars(labels: Sequence[str], counts: Sequence[int], ink: Ink, room: int = 80) -> list[str]:
    r"""Return one bar per label, in lines of at most `room` characters.

    Examples
    --------
    >>> print(*bars(["a", "bc"], [10, 5], ASCII_INK, room=11), sep="\n")
     a  10 ####
    bc   5 ##
    """
    most = max([*counts, 1])
    label_width = max(map(len, labels), default=0)
    numbers = [in_count(count) for count in counts]
    number_width = max(map(len, numbers), default=0)
    width = max(1, min(_LONGEST_BAR, room - label_width - number_width - 3))
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


def curve(
    values: ArrayLike,
    ink: Ink,
    *,
    room: int = 80,
    height: int = 12,
    is_log: bool = False,
    ends: tuple[str, str] | None = None,
) -> list[str]:
    r"""Return a curve over its values from left to right, with both axes.

    Parameters
    ----------
    values : array_like of float, shape (count,)
        Where there are more than columns, neighbours are averaged; NaN is a gap.
    room : int
        Characters of the longest line.
    is_log : bool
        Heights are those of the logarithms of the values, which are positive.
    ends : (str, str), optional
        Labels under the first and the last value; by default 1 and their count.

    Examples
    --------
    >>> print(*curve([3, 2, 1], ASCII_INK, room=14, height=3), sep="\n")
    3.0 |***
    2.0 |   ***
    1.0 |      ***
        +---------
         1       3
    """
    points = np.asarray(values, dtype=np.float64)
    finite = points[np.isfinite(points)]
    if not finite.size:
        return ["no value is finite"]
    heights = np.log2(finite) if is_log else finite
    low, high = float(heights.min()), float(heights.max())
    height = height if high > low else 1
    levels = np.linspace(high, low, height)
    labels = _labels(np.exp2(levels) if is_log else levels)
    label_width = max(map(len, labels))
    width = max(2, min(_WIDEST_CURVE, room - label_width - 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = _resampled(np.log2(points) if is_log else points, width)
    span = high - low or 1.0
    rows = np.rint((high - drawn) / span * (height - 1))
    lines = []
    for row, label in enumerate(labels):
        marks = "".join(ink.dot if r == row else " " for r in rows)
        lines.append(f"{label:>{label_width}} |{marks}".rstrip())
    first, last = ends or ("1", str(len(points)))
    lines.append(f"{'':{label_width}} +{'-' * width}")
    lines.append(f"{'':{label_width}}  {first}{last:>{width - len(first)}}")
    return lines


def _labels(levels: NDArray[np.float64]) -> list[str]:
    """Return numbers with as many digits as they need to differ."""
    step = float(np.ptp(levels)) / max(1, len(levels) - 1) or abs(float(levels[0])) or 1.0
    decimals = max(0, 1 - math.floor(math.log10(step)))
    if decimals > 7 or abs(levels).max() >= 1e9:
        return [f"{level:.2e}" for level in levels]
    return [f"{level:,.{decimals}f}" for level in levels]


def _resampled(points: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    if len(points) <= width:
        return points[np.arange(width) * len(points) // width]
    parts = (part[np.isfinite(part)] for part in np.array_split(points, width))
    return np.array([part.mean() if part.size else np.nan for part in parts])
