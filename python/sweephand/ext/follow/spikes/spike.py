"""One spike: its place, its figures, and the action against it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

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
