"""Spikes: what a run is compared with, what is seen, and the report of it."""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from sweephand.extend import (
    check_path,
    decode,
    of_json,
    reading,
    replaced_file,
    some_of,
    to_json,
    writing,
)
from sweephand.train import Step

SpikeOutcome: TypeAlias = Literal["seen", "skipped", "banned", "ignored", "accepted", "stopped"]


class SpikeError(RuntimeError):
    """Training ends because of spikes; the report lists all.

    Examples
    --------
    >>> import sweephand as sh
    >>> str(sh.train.SpikeError("a spike in step 7, and action says stop"))
    'a spike in step 7, and action says stop'
    """

    code = "loss-spike"


@dataclass(frozen=True)
class Spike:
    """One spike of a training run.

    Attributes
    ----------
    step : int
        The first step out of the band, from 1.
    nominal_time, end_time : int
        Begin and end of the minibatch that caused it, in samples; without a cause, those of the
        step.
    cause_step : int or None
        The step that trained it; None if no minibatch is the cause.
    ids : tuple of str
        The sequences of that minibatch, over all workers.
    figures, z_scores : dict
        The figures of ``step`` by signal, and their distance above the median in robust
        standard deviations; infinite if they were not finite.
    outcome : str
        "skipped": the minibatch; "banned": ``banned_ids``; "ignored": by the callback;
        "accepted": no minibatch was the cause, and a new band began; "stopped": training
        ended; "seen": not yet decided, for a callback.
    banned_ids : tuple of str
        The sequences that spike alone.
    num_trials : int
        Minibatches that were trained in trials.
    back_to_step : int
        Steps done at the snapshot to which training went back.

    Examples
    --------
    >>> import sweephand as sh
    >>> spike = sh.train.Spike(
    ...     817, 52224, 52288, cause_step=817, figures={"loss": 9.1}, z_scores={"loss": 31.0},
    ...     outcome="banned", banned_ids=("web__17",))
    >>> print(spike)
    step 817, loss 9.1 (z 31): web__17 banned
    """

    step: int
    nominal_time: int
    end_time: int
    cause_step: int | None = None
    ids: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    z_scores: Mapping[str, float] = field(default_factory=dict)
    outcome: SpikeOutcome = "seen"
    banned_ids: tuple[str, ...] = ()
    num_trials: int = 0
    back_to_step: int = 0

    def __str__(self) -> str:
        """Return it as a line."""
        seen = ", ".join(
            f"{name} {figure:.4g} (z {self.z_scores[name]:.3g})"
            for name, figure in self.figures.items()
        )
        span = f"nominal time {self.nominal_time} to {self.end_time}"
        done = {
            "seen": "seen",
            "skipped": f"{span} skipped",
            "banned": f"{some_of(self.banned_ids)} banned",
            "ignored": "ignored, as the callback says",
            "accepted": "no minibatch is the cause: the band begins anew",
            "stopped": "training stopped",
        }[self.outcome]
        cause = ""
        if self.cause_step not in (None, self.step):
            cause = f", caused by step {self.cause_step}"
        return f"step {self.step}, {seen}{cause}: {done}"


@dataclass(frozen=True)
class SpikeReport:
    """The spikes of a run, in the order in which they were seen.

    Attributes
    ----------
    spikes : tuple of Spike
    events : tuple
        All events of the source, as `MinibatchSource` takes them: with them the same run can be
        repeated without a spike.

    Examples
    --------
    >>> import sweephand as sh
    >>> spike = sh.train.Spike(817, 52224, 52288, 817, figures={"loss": 9.1},
    ...     z_scores={"loss": 31.0}, outcome="skipped")
    >>> print(sh.train.SpikeReport((spike,)))
    1 spike
    step 817, loss 9.1 (z 31): nominal time 52224 to 52288 skipped
    """

    spikes: tuple[Spike, ...] = ()
    events: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """Return a line for each."""
        count = len(self.spikes)
        return "\n".join([f"{count} spike{'' if count == 1 else 's'}", *map(str, self.spikes)])

    @property
    def banned_ids(self) -> tuple[str, ...]:
        """All sequences that were banned because of spikes."""
        return tuple(one for spike in self.spikes for one in spike.banned_ids)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it; figures that are not finite are texts."""
        state: dict[str, Any] = json.loads(to_json(asdict(self)))
        return state

    @classmethod
    def of_dict(cls, state: Any) -> Self:
        """Return the report of a dict of `to_dict`, or raise StateError."""
        with reading("spikes"):
            found: Self = decode(cls, of_json(state))
        return found

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read the JSON file of a report.

        Raises
        ------
        FileNotFoundError
            If there is none.
        StateError
            If it is no report.
        """
        check_path("path", path)
        text = Path(path).expanduser().read_text(encoding="utf-8")
        with reading("spikes"):
            return cls.of_dict(json.loads(text))

    def write(self, path: Path) -> None:
        """Write it as JSON, in place of the one that is there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        with writing(path, "the report that was there stays"), replaced_file(path) as file:
            file.write(text.encode())


WINDOW = 64  # healthy figures in the band
LEAST_FIGURES = 32  # before them nothing is out of the band
RECENT = 16  # figures whose median follows a falling loss
LEAST_SPREAD = 0.01  # of the median: the least spread of figures that hardly scatter
PART_SPREAD = 0.06  # and more of it where samples are missing, of minibatches that are alike
NORMAL = 1.4826  # MAD of normal figures times this is their standard deviation


@dataclass
class Band:
    """The last figures of healthy steps: their middle, and their scatter.

    They lie at the median, of all or of the latest ones, whichever is lower: so a spike on a
    falling loss is seen, and a slow rise too. They scatter by the MAD of how far each lay above
    that when it came. While they are positive all that is of logarithms, in which the tail of
    a loss is short: what doubles a loss of 8 doubles one of 0.1.
    """

    figures: list[float] = field(default_factory=list)
    excesses: list[float] = field(default_factory=list)  # of the logarithms
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        numbers = self.figures + self.excesses
        if len(self.figures) != len(self.sizes) or not all(map(math.isfinite, numbers)):
            raise ValueError(f"{len(self.figures)} figures, {len(self.sizes)} sizes")

    def z_score(self, figure: float, num_samples: int) -> float:
        """Return how many robust standard deviations a figure is above the band's middle.

        Fewer label samples than are usual scatter more: their figure is taken for that of a
        minibatch of the usual size, whose other samples are as they mostly are. It is infinite
        of a figure that is not finite, and 0 while too few are known.
        """
        if not math.isfinite(figure):
            return math.inf
        known = self.figures
        if len(known) < LEAST_FIGURES:
            return 0.0
        usual = sum(self.sizes) / len(self.sizes)
        middle, part = self._middle(), min(1.0, num_samples / usual)
        figure = middle + part * (figure - middle)
        least = LEAST_SPREAD + PART_SPREAD * (1 - part)
        is_positive = figure > 0 and min(known) > 0
        if is_positive and len(self.excesses) >= LEAST_FIGURES - 1:
            deviation = _deviation(self.excesses)
            return (math.log(figure) - math.log(middle)) / max(NORMAL * deviation, least)
        spread = max(NORMAL * _deviation(known), least * abs(middle), sys.float_info.min)
        return (figure - middle) / spread

    def add(self, figure: float, num_samples: int) -> None:
        """Add the figure of a healthy step with `num_samples` label samples."""
        if figure > 0 and self.figures and min(self.figures) > 0:
            self.excesses.append(math.log(figure) - math.log(self._middle()))
        self.figures.append(figure)
        self.sizes.append(num_samples)
        for numbers in (self.figures, self.excesses, self.sizes):
            del numbers[:-WINDOW]

    def _middle(self) -> float:
        return min(_median(self.figures), _median(self.figures[-RECENT:]))


def _median(numbers: Iterable[float]) -> float:
    """Return the median; of an even number the upper one of both in the middle."""
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]


def _deviation(numbers: Sequence[float]) -> float:
    """Return the median of the distances from the median."""
    middle = _median(numbers)
    return _median(abs(number - middle) for number in numbers)


SpikeAction: TypeAlias = Literal["skip", "bisect", "ignore", "stop"]
SpikeSignal: TypeAlias = Literal["loss", "gradient norm", "both"]


class Seen(NamedTuple):
    """Figures of the first step that was out of the band."""

    step: int
    figures: dict[str, float]
    z_scores: dict[str, float]


class SpikeWatch:
    """Compares every step with the band of healthy steps."""

    def __init__(self, threshold: float, signal: SpikeSignal) -> None:
        self._threshold = threshold
        self._signal = signal
        self._bands: dict[str, Band] = defaultdict(Band)
        self.is_healthy = True  # the last step was
        self.alarm: Seen | None = None  # where a spike begins
        self.last_applied = 0  # the last step that changed the parameters
        # by step: a spike that was ignored or accepted is none again
        self.judged: dict[int, SpikeOutcome] = {}

    def update(self, step: Step) -> None:
        """Look at a step, unless a loss scale has skipped it."""
        self.is_healthy = step.applied
        if not step.applied:
            return
        self.last_applied = step.step
        seen = self.look(step)
        outcome = self.judged.get(step.step)
        if outcome == "accepted":
            self._bands.clear()
        is_out = max(seen.z_scores.values(), default=0.0) > self._threshold
        if outcome is None and is_out:
            self.is_healthy = False
            self.alarm = self.alarm or seen
        elif outcome != "ignored":
            for name, figure in seen.figures.items():
                if seen.z_scores[name] < math.inf:
                    self._bands[name].add(figure, step.num_samples)

    def look(self, step: Step) -> Seen:
        """Return the figures of a step, and their distance above the band."""
        figures = {}
        if self._signal != "gradient norm":
            figures["loss"] = step.loss / step.num_samples
        if self._signal != "loss" and step.gradient_norm is not None:
            figures["gradient norm"] = step.gradient_norm
        scores = {
            name: self._bands[name].z_score(figure, step.num_samples)
            for name, figure in figures.items()
        }
        return Seen(step.step, figures, scores)

    def state_dict(self) -> dict[str, Any]:
        """Return the knowledge of healthy steps, as JSON can hold it."""
        bands = {name: asdict(band) for name, band in self._bands.items()}
        return {"bands": bands, "last_applied": self.last_applied}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, or raise StateError."""
        with reading("a watch for spikes"):
            self.last_applied = decode(int, state["last_applied"], "last_applied")
            bands = decode(dict[str, Band], state["bands"], "bands")
        self._bands.clear()
        self._bands |= bands
        self.is_healthy, self.alarm = True, None
