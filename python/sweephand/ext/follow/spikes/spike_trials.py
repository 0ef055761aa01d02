"""Trials that find the cause of a spike, and leave no trace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sweephand import LossScaleError
from sweephand.ext.follow.spikes.bisection import TrialResult, find_spiking
from sweephand.ext.follow.spikes.moments import StepPlace
from sweephand.ext.follow.spikes.spike_settings import SpikeSettings
from sweephand.ext.follow.spikes.spike_watch import Seen, SpikeWatch
from sweephand.extend import Ban, Step, TrainingRun

# A model is healthy if this many of the next minibatches are: a few may be damaged themselves.
HEALTHY, NEXT = 2, 5
CALM = 0.5  # of the threshold: surely healthy, and not at the border of another level


class Suspicion(NamedTuple):
    """A suspected spike, and the minibatches that may be its cause, the last where it was seen.

    The watch has the band of then.
    """

    seen: Seen
    watch: SpikeWatch
    places: Sequence[StepPlace]
    needs_updates: bool
    back_to_step: int


class SpikeTrials:
    """Trials of the minibatches of a suspicion, which leave no trace.

    REQUIRES that the run is where the first of them begins. Any of them may be the cause.
    `num_trials` counts trained minibatches.
    """

    def __init__(
        self,
        run: TrainingRun,
        policy: SpikeSettings,
        suspicion: Suspicion,
    ) -> None:
        self._run = run
        self._policy = policy
        self._suspicion = suspicion
        self._places = suspicion.places
        self.num_trials = 0

    def find_cause(self) -> StepPlace | None:
        """Return the minibatch without which the next minibatches are healthy, or None.

        The first that was out of the band is asked first, then those before it, backwards.
        """
        return next(filter(self._recovers_without, reversed(self._places)), None)

    def find_spiking(self, cause: StepPlace, ids: Sequence[str]) -> list[str]:
        """Return the sequences of a minibatch that spike alone; see `find_spiking`."""
        index = self._places.index(cause)
        behind = self._places[index + 1 :]

        def look(kept: Sequence[str]) -> TrialResult:
            left_out = tuple(sorted(set(ids).difference(kept)))
            self._run.source.position = cause.begin
            with self._run.source.events.trying(Ban(ids=left_out, at=cause.nominal_time)):
                return self._look(behind)

        whole = TrialResult(math.inf)
        if self._policy.signal == "loss" and not behind:
            seen = self._suspicion.seen
            loss = seen.figures["loss"] * cause.num_samples
            whole = TrialResult(seen.z_scores["loss"], loss, cause.num_samples)
        with self._trained(self._places[:index]):
            return find_spiking(ids, whole, look, self._score, self._policy.threshold)

    def _recovers_without(self, left_out: StepPlace) -> bool:
        """Return True if the run is healthy at the spike once a minibatch is left out."""
        *before, last = self._places
        with self._trained([one for one in before if one is not left_out]) as is_trained:
            if not is_trained:
                return False
            source, asked, healthy = self._run.source, 0, 0
            source.position = last.end if left_out is last else last.begin
            while asked < NEXT and healthy < HEALTHY:
                planned = next(source.plan(self._run.next_size()), None)
                if planned is None:
                    break
                asked += 1
                healthy += self._look().z_score <= CALM * self._policy.threshold
                source.position = planned.next_position
        return healthy >= min(asked, HEALTHY)

    def _look(self, behind: Sequence[StepPlace] = ()) -> TrialResult:
        """Train the next minibatch without trace, and those after it."""
        steps: list[Step] = []
        with self._run.without_trace(steps.append):
            try:
                self._step()
                self._train(behind)
            except (FloatingPointError, LossScaleError):
                return TrialResult(math.inf)
        worst = max(map(self._z_score, steps), default=-math.inf)
        if behind or not steps or self._policy.signal != "loss":
            return TrialResult(worst)  # the minibatch to leave out does not follow from it
        return TrialResult(worst, steps[0].loss, steps[0].num_samples)

    @contextmanager
    def _trained(self, places: Sequence[StepPlace]) -> Iterator[bool]:
        """Train minibatches, and go back afterwards; False if that failed."""
        with self._run.without_trace():
            try:
                self._train(places)
                is_trained = True
            except (FloatingPointError, LossScaleError):
                is_trained = False
            yield is_trained

    def _train(self, places: Sequence[StepPlace]) -> None:
        for place in places:
            self._run.source.position = place.begin
            self._step()

    def _step(self) -> None:
        """Train the next minibatch, and wait for its results."""
        run = self._run
        run.feed.raise_if_preempted()
        minibatch, num_samples = run.feed.next(run.source, self._run.next_size())
        run.has_label_per_sequence = num_samples == run.feed.num_sequences
        self.num_trials += 1
        run.trainer.train_minibatch(minibatch, num_samples)
        run.trainer.await_step()

    def _z_score(self, step: Step) -> float:
        """Return the highest z-score of a step."""
        if not step.applied and (self._suspicion.needs_updates or not math.isfinite(step.loss)):
            return math.inf
        scores = self._suspicion.watch.look(step).z_scores
        if not step.applied:  # it has no gradient
            scores.pop("gradient norm", None)
        return max(scores.values(), default=-math.inf)

    def _score(self, loss: float, num_samples: int) -> float:
        """Return the z-score of a loss sum over label samples."""
        step = Step(0, 0, num_samples, loss, None, True, 0.0, 0.0)
        return max(self._suspicion.watch.look(step).z_scores.values())
