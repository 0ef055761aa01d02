"""Trials that find the cause of a spike, and leave no trace."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sweephand import LossScaleError
from sweephand.events import Ban
from sweephand.ext.follow.spikes.spike import Seen, SpikeSettings, SpikeWatch
from sweephand.extend import Position, Snapshot, TrainingRun
from sweephand.train import Step


class Moment(NamedTuple):
    """Moment that training can go back to, after `step` steps.

    `accepted` is what a rejected epoch goes back to from there.
    """

    step: int
    snapshot: Snapshot
    accepted: int | Snapshot | None


class StepPlace(NamedTuple):
    """Place of a step's minibatch in the source."""

    step: int  # from 1
    # of the source before it and after it
    begin: Position
    size: int  # requested samples
    nominal_time: int
    end: Position
    num_samples: int  # label samples over all workers


class Moments:
    """The last two moments that were kept, and the places of all steps since the first."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._kept: list[Moment] = []
        self.places: list[StepPlace] = []

    def is_due(self, step: int) -> bool:
        """Return True if a moment is due: at multiples, which a resumed run shares."""
        return not self._kept or step // self._every != self._kept[-1].step // self._every

    def keep(self, moment: Moment) -> None:
        """Keep a moment to go back to."""
        earlier = [one for one in self._kept if one.step < moment.step]
        self._kept = [*earlier[-1:], moment]
        self._forget(self._kept[0].step + 1, moment.step)

    @property
    def last(self) -> Moment:
        """The last kept moment. REQUIRES: a moment was kept."""
        return self._kept[-1]

    def note(self, place: StepPlace) -> None:
        """Note the place of the next step's minibatch."""
        while self.places and self.places[-1].step >= place.step:  # training went back
            self.places.pop()
        self.places.append(place)

    def go_back(self, step: int, reach: int) -> tuple[Moment, list[StepPlace]] | None:
        """Return the moment to go back to, and the places of a step and `reach` before it.

        Later ones are forgotten. None if it is not known.
        """
        found = [place for place in self.places if place.step <= step][-1 - reach :]
        kept = [one for one in self._kept if found and one.step < found[0].step]
        if not kept:
            return None
        self._kept = kept
        self._forget(0, kept[-1].step)
        return kept[-1], found

    def _forget(self, first: int, last: int) -> None:
        """Forget all places except those of a range of steps."""
        self.places = [place for place in self.places if first <= place.step <= last]


ALONE = 0.5  # of the threshold: one of several that spike together is beyond it


class TrialResult(NamedTuple):
    """Result of a trial minibatch."""

    z_score: float  # the highest one; infinite if training failed
    # its sum, NaN if it does not say all: then that of the rest does not follow from it
    loss: float = math.nan
    num_samples: int = 0  # its label samples
    is_trained: bool = True  # true if it was trained; else it follows from others

    def without(self, part: TrialResult) -> tuple[float, int]:
        """Return the loss sum and label samples of the rest."""
        return self.loss - part.loss, self.num_samples - part.num_samples


def find_spiking(
    ids: Sequence[str],
    whole: TrialResult,
    look: Callable[[Sequence[str]], TrialResult],
    score: Callable[[float, int], float],
    threshold: float,
) -> list[str]:
    """Return the sequences of a minibatch that spike alone, or none if the rest spikes too.

    One after the other is found by halving what is left: log2 n looks lead to the worst
    sequence, one more may be needed to see it alone, and one shows what the rest does. If there
    are several, each is put back in once. `look` trains some of the sequences without trace,
    `score` returns the z-score of a loss sum over label samples.
    """
    rest = list(ids)
    found: list[str] = []
    while whole.z_score > threshold:
        worst = None
        if len(found) <= len(ids) // 2:
            worst = _worst(rest, whole, look, score, ALONE * threshold)
        if worst is None:
            return []
        found.append(worst)
        rest.remove(worst)
        whole = look(rest) if rest else TrialResult(-math.inf)
    if len(found) > 1:
        for one in list(found):  # it may spike alone, and yet not in a group
            if look([*rest, one]).z_score <= threshold:
                found.remove(one)
                rest.append(one)
    return found


def _worst(
    ids: Sequence[str],
    whole: TrialResult,
    look: Callable[[Sequence[str]], TrialResult],
    score: Callable[[float, int], float],
    threshold: float,
) -> str | None:
    """Return the sequence that is worst, or None if alone it is not beyond the threshold."""
    seen: TrialResult | None = whole  # of the ids; None if nothing is known
    while len(ids) > 1:
        half = len(ids) // 2
        left = look(ids[:half])
        right = _rest(seen, left, score)
        if left.z_score > (threshold if right is None else right.z_score):
            ids, seen = ids[:half], left
        else:
            ids, seen = ids[half:], right
    if seen is None or not seen.is_trained:
        seen = look(ids)
    return ids[0] if seen.z_score > threshold else None


def _rest(
    whole: TrialResult | None, part: TrialResult, score: Callable[[float, int], float]
) -> TrialResult | None:
    """Return the result for the rest, if it follows from the sums."""
    if whole is None or not math.isfinite(part.loss):
        return None
    loss, num_samples = whole.without(part)
    if math.isnan(loss):
        return None
    z_score = score(loss, num_samples) if num_samples else -math.inf
    return TrialResult(z_score, loss, num_samples, is_trained=False)


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
        """Return the last minibatch without which the next ones are healthy, or None."""
        return next(filter(self._recovers_without, reversed(self._places)), None)

    def find_spiking(self, cause: StepPlace, ids: Sequence[str]) -> list[str]:
        """Return the sequences of a minibatch that spike alone; see `find_spiking`."""
        index = self._places.index(cause)
        after = self._places[index + 1 :]

        def look(kept: Sequence[str]) -> TrialResult:
            left_out = tuple(sorted(set(ids).difference(kept)))
            self._run.source.position = cause.begin
            with self._run.source.events.trying(Ban(ids=left_out, at=cause.nominal_time)):
                return self._look(after)

        whole = TrialResult(math.inf)
        if self._policy.signal == "loss" and not after:
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

    def _look(self, after: Sequence[StepPlace] = ()) -> TrialResult:
        """Train the next minibatch without trace, and those after it."""
        steps: list[Step] = []
        with self._run.without_trace(steps.append):
            try:
                self._step()
                self._train(after)
            except (FloatingPointError, LossScaleError):
                return TrialResult(math.inf)
        worst = max(map(self._z_score, steps), default=-math.inf)
        if after or not steps or self._policy.signal != "loss":
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
