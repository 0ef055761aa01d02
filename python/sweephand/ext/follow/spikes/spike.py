"""Spikes: what a run is compared with, what is seen, and the report of it."""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias, get_args

from sweephand.extend import (
    check_choice,
    check_int,
    check_number,
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

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it; figures that are not finite are texts."""
        state: dict[str, Any] = json.loads(to_json(asdict(self)))
        return state

    @classmethod
    def of_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the spike of a dict of `to_dict`, or raise the error in it."""
        found: Self = decode(cls, of_json(state))
        return found


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
        """Return it as JSON can hold it."""
        return {
            "spikes": [spike.to_dict() for spike in self.spikes],
            "events": list(self.events),
        }

    @classmethod
    def of_dict(cls, state: Any) -> Self:
        """Return the report of a dict of `to_dict`, or raise StateError."""
        with reading("spikes"):
            spikes = tuple(map(Spike.of_dict, state["spikes"]))
            return cls(spikes, tuple(state["events"]))

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

    def write(self, path: str | Path) -> None:
        """Write it as JSON, and beside that as text in a file that ends in ``.txt``."""
        path = Path(path).expanduser()
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path.with_suffix(".txt"), f"{self}\n")
        _replace(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")


def _replace(path: Path, text: str) -> None:
    """Replace the report atomically."""
    with writing(path, "the report that was there stays"), replaced_file(path) as file:
        file.write(text.encode())


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
        self._figures: deque[float] = deque(maxlen=self._window)
        self._excesses: deque[float] = deque(maxlen=self._window)  # of the logarithms
        self._sizes: deque[int] = deque(maxlen=self._window)

    def z_score(self, figure: float, num_samples: int) -> float:
        """Return how many robust standard deviations a figure is above the band's middle.

        Fewer label samples than are usual scatter more: their figure is taken for that of a
        minibatch of the usual size, whose other samples are as they mostly are. It is infinite
        of a figure that is not finite, and 0 while too few are known.
        """
        if not math.isfinite(figure):
            return math.inf
        known = self._figures
        if len(known) < LEAST_FIGURES:
            return 0.0
        usual = sum(self._sizes) / len(self._sizes)
        middle, part = self._middle(), min(1.0, num_samples / usual)
        figure = middle + part * (figure - middle)
        least = LEAST_SPREAD + PART_SPREAD * (1 - part)
        is_positive = figure > 0 and min(known) > 0
        if is_positive and len(self._excesses) >= LEAST_FIGURES - 1:
            deviation = _deviation(self._excesses)
            return (math.log(figure) - math.log(middle)) / max(NORMAL * deviation, least)
        spread = max(NORMAL * _deviation(known), least * abs(middle), sys.float_info.min)
        return (figure - middle) / spread

    def add(self, figure: float, num_samples: int) -> None:
        """Add the figure of a healthy step with `num_samples` label samples."""
        if figure > 0 and self._figures and min(self._figures) > 0:
            self._excesses.append(math.log(figure) - math.log(self._middle()))
        self._figures.append(figure)
        self._sizes.append(num_samples)

    def _middle(self) -> float:
        return min(_median(self._figures), _median(list(self._figures)[-RECENT:]))

    def state_dict(self) -> dict[str, Any]:
        """Return the known figures, as JSON can hold them."""
        return {
            "figures": list(self._figures),
            "excesses": list(self._excesses),
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
        self._figures.extend(figures)
        self._excesses.extend(excesses)
        self._sizes.extend(sizes)


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
        if not callable(self.action):
            check_choice("action", self.action, "skip", "bisect")
        if not callable(self.signal):
            check_choice("signal", self.signal, *get_args(SpikeSignal))
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
        is_out = max(seen.z_scores.values(), default=0.0) > self._policy.threshold
        if outcome is None and is_out:
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
