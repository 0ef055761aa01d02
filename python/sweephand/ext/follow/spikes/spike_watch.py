"""Watches the figures of steps, and sees a spike."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from sweephand.ext.follow.spikes.band import Band
from sweephand.ext.follow.spikes.spike import SpikeOutcome
from sweephand.ext.follow.spikes.spike_settings import SpikeSettings
from sweephand.extend import Step, read_count, reading


class Seen(NamedTuple):
    """Figures of the first step that was out of the band."""

    step: int
    figures: dict[str, float]
    z_scores: dict[str, float]


class SpikeWatch:
    """Compares every step with the band of healthy steps.

    Attributes
    ----------
    alarm : Seen or None
        Where a spike begins, once there is one.
    last_applied : int
        The last step that changed the parameters.
    judged : dict from int to str
        What became of spikes, by their step: what was ignored or accepted is none again.
    """

    def __init__(self, policy: SpikeSettings) -> None:
        self._policy = policy
        self._bands: dict[str, Band] = defaultdict(lambda: Band(policy.window))
        self._run: list[Seen] = []  # the last steps, if they are out of the band
        self._is_skipping = False
        self.alarm: Seen | None = None
        self.last_applied = 0
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
            self.last_applied = read_count("last_applied", state["last_applied"])
            bands = dict(state["bands"])
        self._bands.clear()
        for name, band in bands.items():
            self._bands[name].load_state_dict(band)
        self._run.clear()
        self._is_skipping = False
        self.alarm = None
