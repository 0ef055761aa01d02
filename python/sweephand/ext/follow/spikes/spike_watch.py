"""Watches the figures of steps, and sees a spike."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from sweephand.ext.follow.spikes.spike import Spike, SpikeOutcome
from sweephand.extend import (
    ArgumentTypeError,
    check_int,
    check_number,
    check_path,
    decode,
    reading,
)
from sweephand.train import Step

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
            figures = decode(list[float], state["figures"], "figures")
            excesses = decode(list[float], state["excesses"], "excesses")
            sizes = decode(list[int], state["sizes"], "sizes")
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


SpikeAction: TypeAlias = Literal["skip", "bisect", "ignore", "stop"]
SpikeSignal: TypeAlias = Literal["loss", "gradient norm", "both"]


@dataclass(eq=False)
class SpikeSettings:
    """The settings of a `SpikePolicy`, which documents them."""

    threshold: float = 8.0
    action: Literal["skip", "bisect"] | Callable[[Spike], SpikeAction] = "skip"
    signal: SpikeSignal | Callable[[Step], float] = "loss"
    window: int = 64
    patience: int = 1
    reach: int = 4
    frequency: int = 100
    max_spikes: int = 32
    filename: str | Path | None = None

    def __post_init__(self) -> None:
        if not check_number("threshold", self.threshold) > 0:
            raise ValueError(f"threshold must be above 0, got {self.threshold!r}")
        _check_choice("action", self.action, ("skip", "bisect"))
        _check_choice("signal", self.signal, get_args(SpikeSignal))
        check_int("window", self.window, LEAST_FIGURES)
        check_int("patience", self.patience)
        check_int("reach", self.reach, 0)
        check_int("frequency", self.frequency)
        check_int("max_spikes", self.max_spikes)
        if self.filename is not None:
            check_path("filename", self.filename)

    @property
    def has_gradient_norms(self) -> bool:
        """True if norms of gradients are measured."""
        return self.signal in ("gradient norm", "both")

    def figures(self, step: Step) -> dict[str, float]:
        """Return the figures of a step that are looked at, by name."""
        if callable(self.signal):
            return {"signal": self.signal(step)}
        figures = {}
        if self.signal != "gradient norm":
            figures["loss"] = step.loss / step.num_samples
        if self.has_gradient_norms and step.gradient_norm is not None:
            figures["gradient norm"] = step.gradient_norm
        return figures


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if isinstance(value, str) and value in choices:
        return
    message = f"{name} must be {', '.join(map(repr, choices))} or callable, got {value!r:.100}"
    if isinstance(value, str):
        raise ValueError(message)
    if not callable(value):
        raise ArgumentTypeError(message)


class Seen(NamedTuple):
    """Figures of the first step that was out of the band."""

    step: int
    figures: dict[str, float]
    z_scores: dict[str, float]


class SpikeWatch:
    """Compares every step with the band of healthy steps."""

    def __init__(self, policy: SpikeSettings) -> None:
        self._policy = policy
        self._bands: dict[str, Band] = defaultdict(lambda: Band(policy.window))
        self._run: list[Seen] = []  # the last steps, if they are out of the band
        self._is_skipping = False
        self.alarm: Seen | None = None  # where a spike begins
        self.last_applied = 0  # the last step that changed the parameters
        # by step: a spike that was ignored or accepted is none again
        self.judged: dict[int, SpikeOutcome] = {}

    @property
    def is_healthy(self) -> bool:
        """True if the last step was."""
        return not self._run and not self._is_skipping

    def update(self, step: Step) -> None:
        """TrialResult at a step, unless a loss scale has skipped it."""
        self._is_skipping = not step.applied
        if not step.applied:
            return
        self.last_applied = step.step
        seen = self.look(step)
        outcome = self.judged.get(step.step)
        if outcome == "accepted":
            self._bands.clear()
        if outcome is None and self.is_out(seen):
            self._run.append(seen)
            is_finite = max(seen.z_scores.values()) < math.inf
            if len(self._run) >= self._policy.patience or not is_finite:
                self.alarm = self._run[0]
            return
        self._run.clear()
        if outcome != "ignored":
            for name, figure in seen.figures.items():
                if seen.z_scores[name] < math.inf:
                    self._bands[name].add(figure, step.num_samples)

    def look(self, step: Step) -> Seen:
        """Return the figures of a step, and their distance above the band."""
        figures = self._policy.figures(step)
        scores = {}
        for name, figure in figures.items():
            if isinstance(figure, bool):
                scores[name] = math.inf if figure else 0.0
            else:
                scores[name] = self._bands[name].z_score(figure, step.num_samples)
        return Seen(step.step, {name: float(one) for name, one in figures.items()}, scores)

    def is_out(self, seen: Seen) -> bool:
        """Return True if a step is out of the band."""
        return max(seen.z_scores.values(), default=0.0) > self._policy.threshold

    def copy(self) -> SpikeWatch:
        """Return a watch that knows as much of healthy steps."""
        made = SpikeWatch(self._policy)
        made.load_state_dict(self.state_dict())
        return made

    def state_dict(self) -> dict[str, Any]:
        """Return the knowledge of healthy steps, as JSON can hold it."""
        bands = {name: band.state_dict() for name, band in self._bands.items()}
        return {"bands": bands, "last_applied": self.last_applied}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, or raise StateError."""
        with reading("a watch for spikes"):
            self.last_applied = decode(int, state["last_applied"], "last_applied")
            bands = dict(state["bands"])
        self._bands.clear()
        for name, band in bands.items():
            self._bands[name].load_state_dict(band)
        self._run.clear()
        self._is_skipping = False
        self.alarm = None
