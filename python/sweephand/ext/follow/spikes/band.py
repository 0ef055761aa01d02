"""The band of a figure in healthy steps."""

import math
import sys
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from sweephand.extend import check_int, check_number, reading

LEAST_FIGURES = 32  # before them nothing is out of the band
RECENT = 16  # figures whose median follows a falling loss
LEAST_SPREAD = 0.01  # of the median: the least spread of figures that hardly scatter
PART_SPREAD = 0.06  # and more of it where samples are missing, of minibatches that are alike
NORMAL = 1.4826  # MAD of normal figures times this is their standard deviation


class Band:
    """The last figures of healthy steps: their middle, and their scatter.

    They lie at the median, of all or of the latest ones, whichever is lower: so a spike on a
    falling loss is seen, and a slow rise too. They scatter by the MAD of how far each lay above
    that when it came. While they are positive all that is of logarithms, in which the tail of
    a loss is short: what doubles a loss of 8 doubles one of 0.1.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self.clear()

    def clear(self) -> None:
        """Forget all figures."""
        self._figures = _Ordered(self._window)
        self._excesses = _Ordered(self._window)  # of the logarithms
        self._sizes: deque[int] = deque(maxlen=self._window)
        self._known_middle: float | None = None

    def z_score(self, figure: float, num_samples: int) -> float:
        """Return how many robust standard deviations a figure is above the band's middle.

        Fewer label samples than are usual scatter more: their figure is taken for that of a
        minibatch of the usual size, whose other samples are as they mostly are. It is infinite
        of a figure that is not finite, and 0 while too few are known.
        """
        if not math.isfinite(figure):
            return math.inf
        known = self._figures
        if len(known.ordered) < LEAST_FIGURES:
            return 0.0
        usual = sum(self._sizes) / len(self._sizes)
        middle, part = self._middle, min(1.0, num_samples / usual)
        figure = middle + part * (figure - middle)
        least = LEAST_SPREAD + PART_SPREAD * (1 - part)
        is_positive = figure > 0 and known.ordered[0] > 0
        if is_positive and len(self._excesses.ordered) >= LEAST_FIGURES - 1:
            _, deviation = median_and_deviation(self._excesses.ordered)
            return (math.log(figure) - math.log(middle)) / max(NORMAL * deviation, least)
        _, deviation = median_and_deviation(known.ordered)
        spread = max(NORMAL * deviation, least * abs(middle), sys.float_info.min)
        return (figure - middle) / spread

    def add(self, figure: float, num_samples: int) -> None:
        """Add the figure of a healthy step with `num_samples` label samples."""
        ordered = self._figures.ordered
        if figure > 0 and ordered and ordered[0] > 0:
            self._excesses.add(math.log(figure) - math.log(self._middle))
        self._figures.add(figure)
        self._sizes.append(num_samples)
        self._known_middle = None

    @property
    def _middle(self) -> float:
        """Middle of the figures."""
        if self._known_middle is None:
            known = self._figures
            count = len(known.latest)
            recent = sorted(islice(known.latest, max(0, count - RECENT), None))
            self._known_middle = min(recent[len(recent) // 2], known.ordered[count // 2])
        return self._known_middle

    def state_dict(self) -> dict[str, Any]:
        """Return the known figures, as JSON can hold them."""
        return {
            "figures": list(self._figures.latest),
            "excesses": list(self._excesses.latest),
            "sizes": list(self._sizes),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, or raise StateError."""
        with reading("a band"):
            figures = [check_number("a figure", one) for one in state["figures"]]
            excesses = [check_number("an excess", one) for one in state["excesses"]]
            sizes = [check_int("a size", one) for one in state["sizes"]]
            if len(figures) != len(sizes) or not all(map(math.isfinite, figures + excesses)):
                raise ValueError(f"{len(figures)} figures, {len(sizes)} sizes")
        self.clear()
        for figure in figures:
            self._figures.add(figure)
        for excess in excesses:
            self._excesses.add(excess)
        self._sizes.extend(sizes)


class _Ordered:
    """The latest numbers, in the order of time and of size."""

    def __init__(self, window: int) -> None:
        self.latest: deque[float] = deque(maxlen=window)
        self.ordered: list[float] = []

    def add(self, number: float) -> None:
        """Add a value; the oldest is dropped if there are too many."""
        if len(self.latest) == self.latest.maxlen:
            del self.ordered[bisect_left(self.ordered, self.latest[0])]
        self.latest.append(number)
        insort(self.ordered, number)


def median_and_deviation(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the median, and the median of the distances from it, of ascending numbers.

    Of an even number the upper one of both in the middle. Logarithmic in their number: the half
    of them that lies next to the median is a run.
    """
    count = len(ordered)
    middle = ordered[count // 2]
    half = count // 2 + 1
    low, high = 0, count - half
    while low < high:  # the first run whose upper end is as far away as its lower one
        begin = (low + high) // 2
        if ordered[begin + half - 1] - middle >= middle - ordered[begin]:
            high = begin
        else:
            low = begin + 1
    runs = range(max(0, low - 1), low + 1)
    return middle, min(max(middle - ordered[i], ordered[i + half - 1] - middle) for i in runs)
